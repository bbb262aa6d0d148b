// From a request for text that has been read to what runs, what collects its answer and what
// writes it.
#include "server/prepared_answer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kimi_k3/chat.h"
#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

void CheckPrompt(const std::vector<TokenId>& prompt, size_t most, const char* field) {
  if (prompt.size() <= most) return;
  throw ApiError(400, "context_length_exceeded", field,
                 fmt::format("the prompt has {} tokens, but at most {} are taken here (-c)",
                             prompt.size(), most));
}

AnswerHeader HeaderOf(AnswerOrigin origin, const CompletionOptions& options, size_t prompt_tokens) {
  return {.id = std::move(origin.id),
          .model = std::move(origin.model),
          .approximations = std::move(origin.approximations),
          .created = origin.created,
          .prompt_tokens = prompt_tokens,
          .include_usage = options.include_usage,
          .probabilities = options.likely_tokens.has_value(),
          .likely_tokens = options.likely_tokens.value_or(0)};
}

std::vector<TokenId> IdsOf(const Tokenizer& tokenizer, const TextOrIds& given) {
  return given.ids.empty() ? tokenizer.Encode(given.text, SpecialText::kPlain) : given.ids;
}

RenderedChat Render(const Tokenizer& tokenizer, const ChatRequest& chat) {
  try {
    return RenderChat(tokenizer, chat);
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", "messages", error.what());
  }
}

// Null where the request does not limit the answer.
std::shared_ptr<OutputConstraint> ConstraintOf(const ConstraintMaker& constraints,
                                               const ChatRequest& chat, Channel start) {
  try {
    return constraints.ForTurn(chat, start);
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", FieldOf(error.what()), error.what());
  }
}

}  // namespace

PreparedAnswer PrepareChatAnswer(const Tokenizer& tokenizer, const ConstraintMaker& constraints,
                                 const ChatCompletionRequest& request, AnswerOrigin origin,
                                 std::function<void(GeneratedTurn)> on_turn) {
  RenderedChat chat = Render(tokenizer, request.chat);
  CheckPrompt(chat.ids, origin.most_prompt_tokens, "messages");
  const CompletionOptions& options = request.options;
  PreparedAnswer prepared;
  prepared.stream = options.stream;
  prepared.request = {.prompt = std::move(chat.ids),
                      .max_tokens = options.max_tokens,
                      .sampling = options.sampling,
                      .likely_tokens = options.likely_tokens};
  prepared.answer = std::make_shared<ChatAnswer>(
      tokenizer,
      ChatAnswerOptions{.start = chat.start,
                        .stop = options.stop,
                        .tools_allowed = request.tools_allowed,
                        .parallel_tool_calls = request.parallel_tool_calls,
                        .probabilities = options.likely_tokens.has_value(),
                        .constraint = ConstraintOf(constraints, request.chat, chat.start),
                        .on_turn = std::move(on_turn)});
  prepared.writer =
      MakeChatWriter(tokenizer, HeaderOf(std::move(origin), options, chat.usage_tokens));
  return prepared;
}

PreparedAnswer PrepareTextAnswer(const Tokenizer& tokenizer, TextCompletionRequest request,
                                 AnswerOrigin origin) {
  std::vector<TokenId> ids = IdsOf(tokenizer, {request.prompt, std::move(request.prompt_ids)});
  CheckPrompt(ids, origin.most_prompt_tokens, "prompt");
  const CompletionOptions& options = request.options;
  PreparedAnswer prepared;
  prepared.stream = options.stream;
  prepared.writer = MakeTextWriter(tokenizer, HeaderOf(std::move(origin), options, ids.size()));
  prepared.request = {.prompt = std::move(ids),
                      .max_tokens = options.max_tokens,
                      .sampling = options.sampling,
                      .ignore_eos = request.ignore_eos,
                      .likely_tokens = options.likely_tokens};
  prepared.answer =
      std::make_shared<TextAnswer>(tokenizer, options.stop, options.likely_tokens.has_value());
  return prepared;
}

PreparedAnswer PrepareScoreAnswer(const Tokenizer& tokenizer, const ScoreRequest& request,
                                  AnswerOrigin origin) {
  std::vector<TokenId> ids = IdsOf(tokenizer, request.prompt);
  const std::vector<TokenId> scored = IdsOf(tokenizer, request.scored);
  // The first token of all has nothing before it.
  const size_t first = std::max<size_t>(ids.size(), 1);
  ids.insert(ids.end(), scored.begin(), scored.end());
  if (ids.size() < 2) {
    RefuseField("text", "is one token, before which nothing stands that it could follow");
  }
  CheckPrompt(ids, origin.most_prompt_tokens, "prompt");
  PreparedAnswer prepared;
  const AnswerHeader header = {.id = std::move(origin.id),
                               .model = std::move(origin.model),
                               .approximations = std::move(origin.approximations),
                               .created = origin.created,
                               .prompt_tokens = ids.size(),
                               .probabilities = true,
                               .likely_tokens = request.likely_tokens};
  prepared.writer = MakeScoreWriter(tokenizer, header);
  prepared.request = {.prompt = std::move(ids), .max_tokens = 0, .score_from = first};
  if (request.likely_tokens > 0) prepared.request.likely_tokens = request.likely_tokens;
  prepared.answer = std::make_shared<ScoreAnswer>();
  return prepared;
}

}  // namespace kimi_k3::server
