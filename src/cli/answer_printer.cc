// Prints an answer while its tokens arrive: as ids, as plain text, or as a chat turn.
#include "cli/answer_printer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "kimi_k3/generation.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

class IdPrinter : public AnswerPrinter {
 public:
  explicit IdPrinter(Output& output) : output_(output) {}

  AnswerState Append(TokenId token) override {
    output_.Text(fmt::format("{}{}", first_ ? "" : " ", token));
    first_ = false;
    return AnswerState::kGoesOn;
  }
  void Finish() override {
    if (!first_) output_.Text("\n");
  }

 private:
  Output& output_;
  bool first_ = true;
};

class TextPrinter : public AnswerPrinter {
 public:
  TextPrinter(Output& output, const Tokenizer& tokenizer, std::vector<std::string> stop_texts)
      : output_(output), tokenizer_(tokenizer), filter_(std::move(stop_texts)) {}

  AnswerState Append(TokenId token) override {
    any_ = true;
    output_.Text(filter_.Append(utf8_.Append(tokenizer_.TokenBytes(token))));
    return filter_.stopped() ? AnswerState::kStopText : AnswerState::kGoesOn;
  }
  void Finish() override {
    output_.Text(filter_.Append(utf8_.Flush()));
    output_.Text(filter_.Flush());
    if (any_) output_.Text("\n");
  }

 private:
  Output& output_;
  const Tokenizer& tokenizer_;
  Utf8Stream utf8_;
  StopTextFilter filter_;
  bool any_ = false;
};

class ChatPrinter : public AnswerPrinter {
 public:
  ChatPrinter(Output& output, const Tokenizer& tokenizer, Channel start, bool hide_thinking,
              std::vector<std::string> stop_texts)
      : output_(output),
        parser_(tokenizer, start),
        hide_thinking_(hide_thinking),
        filter_(std::move(stop_texts)) {}

  AnswerState Append(TokenId token) override {
    any_ = true;
    Print(parser_.Append(token));
    is_reasoning_ = parser_.channel() == Channel::kThink;
    if (filter_.stopped()) return AnswerState::kStopText;
    return parser_.ended() ? AnswerState::kEnded : AnswerState::kGoesOn;
  }
  bool is_reasoning() const override { return is_reasoning_; }
  void Finish() override {
    Print(parser_.Finish());
    EndThinking();
    output_.Text(filter_.Flush());
    if (any_) output_.Text("\n");
  }

 private:
  void Print(const ChatDelta& delta) {
    if (!delta.reasoning.empty() && !hide_thinking_) {
      if (!thinking_ && !output_.text_is_terminal()) output_.Text("<think>\n");
      thinking_ = true;
      output_.FaintText(delta.reasoning);
    }
    if (!delta.content.empty()) {
      EndThinking();
      output_.Text(filter_.Append(delta.content));
    }
    for (const ToolCall& call : delta.tool_calls) {
      EndThinking();
      const nlohmann::ordered_json line = {{"tool", call.name}, {"arguments", call.arguments}};
      output_.Text(fmt::format(
          "\n{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    }
  }
  void EndThinking() {
    if (!thinking_) return;
    thinking_ = false;
    output_.Text(output_.text_is_terminal() ? "\n\n" : "\n</think>\n\n");
  }

  Output& output_;
  ChatParser parser_;
  bool hide_thinking_;
  StopTextFilter filter_;
  bool thinking_ = false;
  bool is_reasoning_ = false;
  bool any_ = false;
};

}  // namespace

std::unique_ptr<AnswerPrinter> MakeIdPrinter(Output& output) {
  return std::make_unique<IdPrinter>(output);
}

std::unique_ptr<AnswerPrinter> MakeTextPrinter(Output& output, const Tokenizer& tokenizer,
                                               std::vector<std::string> stop_texts) {
  return std::make_unique<TextPrinter>(output, tokenizer, std::move(stop_texts));
}

std::unique_ptr<AnswerPrinter> MakeChatPrinter(Output& output, const Tokenizer& tokenizer,
                                               Channel start, bool hide_thinking,
                                               std::vector<std::string> stop_texts) {
  return std::make_unique<ChatPrinter>(output, tokenizer, start, hide_thinking,
                                       std::move(stop_texts));
}

}  // namespace kimi_k3
