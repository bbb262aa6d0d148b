// Generated token ids to reasoning, answer and tool calls, while they arrive.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/chat.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

enum class FinishReason {
  kStop,       // the turn ended by itself
  kToolCalls,  // it ended and holds at least one complete call
  kLength      // it was cut
};

// "stop", "tool_calls" or "length".
std::string_view FinishReasonName(FinishReason reason);

// What one more token brought; all strings are valid UTF-8 and usually empty.
struct ChatDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;  // complete calls; `id` is left to the caller, arguments are
                                     // JSON object text (or a json block as it was written)
  bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

// Follows the structure of an assistant message by its control ids alone: marker text spelled with
// ordinary tokens is text. Deviations that models show (docs/text.md) are tolerated; no id
// sequence makes it throw, except ids outside the vocabulary. One thread at a time.
class ChatParser {
 public:
  // The tokenizer must outlive the parser. `start` is RenderedChat::start.
  ChatParser(const Tokenizer& tokenizer, Channel start);
  ChatParser(ChatParser&&) noexcept;
  ChatParser& operator=(ChatParser&&) noexcept;
  ~ChatParser();

  // Takes the next generated id, a stop token included. After the end of the turn ids are ignored.
  // Throws Error(kUsage) for an id outside the vocabulary.
  ChatDelta Append(TokenId id);

  // No more ids will come: returns text held back (an unfinished character as U+FFFD).
  ChatDelta Finish();

  // Whether the message was closed or a stop token came.
  bool ended() const;

  // The reason that is right if generation ends here.
  FinishReason finish_reason() const;

  // The channel that text would go to now; kNone also inside tool calls.
  Channel channel() const;

  // The ids of a turn as they stand in a transcript (ChatMessage::generated): the generated ids up
  // to their end, without a stop token or an unfinished tag, then the closing tags of whatever is
  // open and <|end_of_msg|>. Throws as Append does.
  static std::vector<TokenId> CompleteTurn(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                                           Channel start);

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

// A whole turn.
struct ParsedTurn {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  FinishReason finish_reason = FinishReason::kLength;
};

// All ids at once, through the same ChatParser.
ParsedTurn ParseTurn(const Tokenizer& tokenizer, std::span<const TokenId> ids, Channel start);

}  // namespace kimi_k3
