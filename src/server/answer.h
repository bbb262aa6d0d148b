// Answers while they are generated: from tokens, on the scheduler's thread, to pieces of text,
// reasoning and tool calls, which the client's thread takes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kimi_k3/chat_parser.h"
#include "kimi_k3/constraint.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/scheduler.h"
#include "kimi_k3/utf8.h"
#include "server/turn_memory.h"

namespace kimi_k3::server {

// Part of an answer. All strings are valid UTF-8.
struct AnswerPiece {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCall> tool_calls = {};  // complete, with ids
  std::vector<ChosenToken> tokens = {};   // of the content, where their probabilities are asked for
  bool empty() const {
    return reasoning.empty() && content.empty() && tool_calls.empty() && tokens.empty();
  }
};

// How an answer ended.
struct AnswerEnd {
  FinishReason finish_reason = FinishReason::kStop;
  size_t cached_tokens = 0;
  size_t completion_tokens = 0;
  size_t reasoning_tokens = 0;
  std::optional<Error> error = {};
};

// Hands an answer from the thread that generates it to the one that sends it.
class AnswerQueue {
 public:
  void Push(AnswerPiece piece);
  void PushEnd(AnswerEnd end);

  // Waits until something has come or the time is over, and takes it: pieces joined to one.
  // Nothing: the time is over, or all pieces before the end have been taken (see end()).
  std::optional<AnswerPiece> Take(std::chrono::milliseconds wait);

  // The end, where every piece before it has been taken.
  std::optional<AnswerEnd> end();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  AnswerPiece pieces_;
  std::optional<AnswerEnd> end_;
};

// A consumer of tokens that fills a queue.
class Answer : public TextConsumer {
 public:
  AnswerQueue& queue() { return queue_; }
  void End(const TextResult& result) override;

 protected:
  // The rest of the text, once no more tokens come; the reason that the client is told.
  virtual FinishReason Finish(const TextResult& result, AnswerPiece& rest) = 0;
  size_t reasoning_tokens_ = 0;
  AnswerQueue queue_;
};

struct ChatAnswerOptions {
  Channel start = Channel::kThink;
  std::vector<std::string> stop = {};  // counts in the content
  bool tools_allowed = true;           // calls are reported; else dropped
  bool parallel_tool_calls = true;
  bool probabilities = false;                         // tokens are part of the pieces
  std::shared_ptr<OutputConstraint> constraint = {};  // of the turn; null: none
  // Called at the end with the turn as it may come back, unless it was changed on its way to the
  // client (by a stop text, or calls that were dropped) or failed.
  std::function<void(GeneratedTurn)> on_turn = {};
};

// A turn of a chat.
class ChatAnswer : public Answer {
 public:
  // The tokenizer must outlive the answer.
  ChatAnswer(const Tokenizer& tokenizer, ChatAnswerOptions options);
  void Constrain(std::span<float> logits) override;
  bool Take(const ChosenToken& token) override;

 protected:
  FinishReason Finish(const TextResult& result, AnswerPiece& rest) override;

 private:
  // Moves what a token brought into the piece; whether a call was among it.
  bool Sort(ChatDelta delta, AnswerPiece& piece);
  void TellTurn(const TextResult& result);

  const Tokenizer& tokenizer_;
  const ChatAnswerOptions options_;
  ChatParser parser_;
  StopTextFilter filter_;
  bool called_ = false;
  bool dropped_calls_ = false;
  GeneratedTurn turn_;
  bool in_tag_ = false;  // between a control token that opens a tag and the one that ends it
};

// A text that is continued.
class TextAnswer : public Answer {
 public:
  // The tokenizer must outlive the answer. probabilities: tokens are part of the pieces.
  TextAnswer(const Tokenizer& tokenizer, std::vector<std::string> stop, bool probabilities);
  bool Take(const ChosenToken& token) override;

 protected:
  FinishReason Finish(const TextResult& result, AnswerPiece& rest) override;

 private:
  const Tokenizer& tokenizer_;
  Utf8Stream utf8_;
  StopTextFilter filter_;
  const bool probabilities_;
};

// A text whose tokens are scored; none is generated.
class ScoreAnswer : public Answer {
 public:
  void Score(const ChosenToken& token) override;
  bool Take(const ChosenToken& token) override;

 protected:
  FinishReason Finish(const TextResult& result, AnswerPiece& rest) override;
};

// "prefix-" and 24 random hexadecimal digits.
std::string RandomId(const char* prefix);

}  // namespace kimi_k3::server
