// A conversation as the sessions of run and chat keep it: turns to tokens, so that each new prompt
// extends what the state has seen.
#include "cli/conversation.h"

#include <algorithm>
#include <utility>

#include "kimi_k3/chat_parser.h"

namespace kimi_k3 {

void FoldAnswer(SessionNote& note, const Tokenizer& tokenizer) {
  if (note.messages.empty() || note.messages.back().role != ChatRole::kUser) return;
  const Channel start = note.chat_start.value_or(Channel::kThink);
  ParsedTurn turn = ParseTurn(tokenizer, note.answer(), start);
  ChatMessage message = ChatMessage::Assistant(std::move(turn.content), std::move(turn.reasoning));
  message.tool_calls = std::move(turn.tool_calls);
  message.generated = ChatParser::CompleteTurn(tokenizer, note.answer(), start);
  message.generated_start = start;
  note.messages.push_back(std::move(message));
  note.answer_begin = note.text.size();
}

void AskInChat(SessionNote& note, const Tokenizer& tokenizer, const std::string& text,
               const std::string& json_schema) {
  note.messages.push_back(ChatMessage::User(text));
  ChatRequest request;
  request.messages = note.messages;
  request.thinking = note.thinking;
  request.effort = note.effort;
  if (!json_schema.empty()) {
    request.response_format = ResponseFormat::kJsonSchema;
    request.json_schema = json_schema;
  }
  RenderedChat chat = RenderChat(tokenizer, request);
  note.text = std::move(chat.ids);
  note.answer_begin = note.text.size();
  note.chat_start = chat.start;
  note.prompt = text;
  note.stop_reason.clear();
}

bool EndsBetweenTags(const SessionNote& note, const Tokenizer& tokenizer) {
  const auto answer = note.answer();
  const std::vector<TokenId> turn =
      ChatParser::CompleteTurn(tokenizer, answer, note.chat_start.value_or(Channel::kThink));
  // The last token has not been processed yet.
  const auto processed = answer.first(answer.empty() ? 0 : answer.size() - 1);
  return turn.size() >= processed.size() &&
         std::equal(processed.begin(), processed.end(), turn.begin());
}

}  // namespace kimi_k3
