// Prints an answer while its tokens arrive: as ids, as plain text, or as a chat turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/output.h"
#include "kimi_k3/chat_parser.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// What a token meant for the answer.
enum class AnswerState {
  kGoesOn,
  kStopText,  // a stop text has been met
  kEnded      // the model has closed its message
};

// Takes the tokens of one answer.
class AnswerPrinter {
 public:
  virtual ~AnswerPrinter() = default;
  // Prints what the token completes.
  virtual AnswerState Append(TokenId token) = 0;
  // Prints what was held back, and a newline if there was any token.
  virtual void Finish() = 0;
  // Whether the last token was reasoning, not yet the answer.
  virtual bool is_reasoning() const { return false; }
};

// "1 2 3": ids separated by spaces.
std::unique_ptr<AnswerPrinter> MakeIdPrinter(Output& output);

// The tokens' text as it is; the answer ends before a stop text.
std::unique_ptr<AnswerPrinter> MakeTextPrinter(Output& output, const Tokenizer& tokenizer,
                                               std::vector<std::string> stop_texts);

// Reasoning faint (between <think> lines where the output is no terminal), then the answer, then
// any tool calls as JSON lines. Stop texts count in the answer only.
std::unique_ptr<AnswerPrinter> MakeChatPrinter(Output& output, const Tokenizer& tokenizer,
                                               Channel start, bool hide_thinking,
                                               std::vector<std::string> stop_texts);

}  // namespace kimi_k3
