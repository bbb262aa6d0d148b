// Answers while they are generated: from tokens, on the scheduler's thread, to pieces of text,
// reasoning and tool calls, which the client's thread takes.
#include "server/answer.h"

#include <fmt/format.h>

#include <random>
#include <utility>

namespace kimi_k3::server {
namespace {

template <typename T>
void AppendAll(std::vector<T>& to, std::vector<T>& from) {
  for (T& item : from) to.push_back(std::move(item));
}

}  // namespace

void AnswerQueue::Push(AnswerPiece piece) {
  const std::lock_guard lock(mutex_);
  pieces_.reasoning += piece.reasoning;
  pieces_.content += piece.content;
  AppendAll(pieces_.tool_calls, piece.tool_calls);
  AppendAll(pieces_.tokens, piece.tokens);
  changed_.notify_one();
}

void AnswerQueue::PushEnd(AnswerEnd end) {
  const std::lock_guard lock(mutex_);
  end_ = std::move(end);
  changed_.notify_one();
}

std::optional<AnswerPiece> AnswerQueue::Take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return !pieces_.empty() || end_; });
  if (pieces_.empty()) return std::nullopt;
  return std::exchange(pieces_, {});
}

std::optional<AnswerEnd> AnswerQueue::end() {
  const std::lock_guard lock(mutex_);
  return pieces_.empty() ? end_ : std::nullopt;
}

void Answer::End(const TextResult& result) {
  AnswerPiece rest;
  AnswerEnd end;
  end.finish_reason = Finish(result, rest);
  end.cached_tokens = result.cached_tokens;
  end.completion_tokens = result.tokens.size();
  end.reasoning_tokens = reasoning_tokens_;
  end.error = result.error;
  if (!rest.empty()) queue_.Push(std::move(rest));
  queue_.PushEnd(std::move(end));
}

ChatAnswer::ChatAnswer(const Tokenizer& tokenizer, ChatAnswerOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      parser_(tokenizer, options_.start),
      filter_(options_.stop) {}

void ChatAnswer::Constrain(std::span<float> logits) {
  if (options_.constraint != nullptr) options_.constraint->MaskLogits(logits);
}

bool ChatAnswer::Take(const ChosenToken& token) {
  const ControlTokens& control = tokenizer_.control_tokens();
  const Channel before = parser_.channel();
  if (before == Channel::kThink) ++reasoning_tokens_;
  const bool begins_tag = token.token == control.open || token.token == control.close;
  in_tag_ = in_tag_ || begins_tag;
  const bool is_content =
      before == Channel::kResponse && !in_tag_ && token.token < tokenizer_.first_special_id();
  if (token.token == control.sep) in_tag_ = false;
  if (options_.constraint != nullptr) options_.constraint->Accept(token.token);
  AnswerPiece piece;
  const bool called = Sort(parser_.Append(token.token), piece);
  if (options_.probabilities && is_content) piece.tokens.push_back(token);
  if (!piece.empty()) queue_.Push(std::move(piece));
  if (called && !options_.parallel_tool_calls) return false;
  // What follows is known, and need not be computed.
  if (options_.constraint != nullptr && options_.constraint->Ended()) return false;
  return !filter_.stopped() && !parser_.ended();
}

bool ChatAnswer::Sort(ChatDelta delta, AnswerPiece& piece) {
  piece.reasoning += delta.reasoning;
  turn_.reasoning += delta.reasoning;
  turn_.content += delta.content;
  piece.content += filter_.Append(delta.content);
  dropped_calls_ = dropped_calls_ || (!options_.tools_allowed && !delta.tool_calls.empty());
  if (!options_.tools_allowed || filter_.stopped()) return false;
  for (ToolCall& call : delta.tool_calls) {
    if (called_ && !options_.parallel_tool_calls) break;
    call.id = RandomId("call_");
    turn_.tool_calls.push_back(call);
    piece.tool_calls.push_back(std::move(call));
    called_ = true;
  }
  return !delta.tool_calls.empty();
}

FinishReason ChatAnswer::Finish(const TextResult& result, AnswerPiece& rest) {
  const bool by_itself = !result.error && result.reason == StopReason::kEndOfText;
  if (by_itself) Sort(parser_.Append(tokenizer_.StopTokens().front()), rest);
  Sort(parser_.Finish(), rest);
  rest.content += filter_.Flush();
  if (!result.error) TellTurn(result);
  if (filter_.stopped()) return FinishReason::kStop;
  const bool cut =
      result.reason == StopReason::kMaxTokens || result.reason == StopReason::kContextFull;
  if (cut && !parser_.ended()) return FinishReason::kLength;
  return called_ ? FinishReason::kToolCalls : FinishReason::kStop;
}

void ChatAnswer::TellTurn(const TextResult& result) {
  if (!options_.on_turn || filter_.stopped() || dropped_calls_) return;
  turn_.ids = ChatParser::CompleteTurn(tokenizer_, result.tokens, options_.start);
  turn_.start = options_.start;
  options_.on_turn(std::move(turn_));
}

TextAnswer::TextAnswer(const Tokenizer& tokenizer, std::vector<std::string> stop,
                       bool probabilities)
    : tokenizer_(tokenizer), filter_(std::move(stop)), probabilities_(probabilities) {}

bool TextAnswer::Take(const ChosenToken& token) {
  AnswerPiece piece;
  piece.content = filter_.Append(utf8_.Append(tokenizer_.TokenBytes(token.token)));
  if (probabilities_) piece.tokens.push_back(token);
  if (!piece.empty()) queue_.Push(std::move(piece));
  return !filter_.stopped();
}

FinishReason TextAnswer::Finish(const TextResult& result, AnswerPiece& rest) {
  rest.content += filter_.Append(utf8_.Flush());
  rest.content += filter_.Flush();
  const bool cut =
      result.reason == StopReason::kMaxTokens || result.reason == StopReason::kContextFull;
  return cut && !filter_.stopped() ? FinishReason::kLength : FinishReason::kStop;
}

void ScoreAnswer::Score(const ChosenToken& token) { queue_.Push({.tokens = {token}}); }

bool ScoreAnswer::Take(const ChosenToken& /*token*/) { return false; }

FinishReason ScoreAnswer::Finish(const TextResult& /*result*/, AnswerPiece& /*rest*/) {
  return FinishReason::kStop;
}

std::string RandomId(const char* prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

}  // namespace kimi_k3::server
