// What the rows of a pass bring their texts: scores, and the tokens that are chosen.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/likely_tokens.h"
#include "engine/scheduler_impl.h"

namespace kimi_k3 {
namespace {

// A token with its probability, and the likeliest as far as they are asked for.
ChosenToken WithProbability(const TextRequest& request, std::span<const float> logits,
                            TokenId token) {
  const double log_sum = LogSumExp(logits);
  const auto logit = static_cast<double>(logits[static_cast<size_t>(token)]);
  ChosenToken chosen = {.token = token, .logprob = static_cast<float>(logit - log_sum)};
  const size_t likely = request.likely_tokens.value_or(0);
  if (likely > 0) chosen.likely = LikelyTokens(logits, log_sum, likely);
  return chosen;
}

// Takes the first of the rows of logits that are left.
std::span<float> NextRow(std::span<float>& logits, size_t vocabulary) {
  const std::span<float> row = logits.first(vocabulary);
  logits = logits.subspan(vocabulary);
  return row;
}

}  // namespace

// After a pass: the prompt is further, or tokens are chosen. logits: the rows that the slot wanted.
void Scheduler::Impl::Advance(TextSlot& slot, std::span<float> logits) {
  ScheduledText& text = *slot.text;
  const size_t end = slot.sequence->tokens().size();
  std::vector<std::pair<size_t, std::span<float>>> scored;  // positions and the logits before
  for (size_t i = end - slot.rows + 1; i <= end; ++i) {
    if (text.IsScored(i)) scored.emplace_back(i, NextRow(logits, engine_.vocabulary()));
  }
  CountRows(slot);
  {
    const std::lock_guard lock(mutex_);
    if (text.cancelled || stopping_) return;  // its end comes before the next pass
  }
  try {
    for (const auto& [position, row] : scored) {
      text.consumer->Score(WithProbability(text.request, row, text.history[position]));
    }
    if (!scored.empty()) {
      const std::lock_guard lock(mutex_);
      status_.scored_tokens += scored.size();
    }
    if (end < text.history.size()) return;
    if (logits.empty()) {
      EndWith(slot, StopReason::kMaxTokens);
    } else {
      ChooseTokens(slot, logits);
    }
  } catch (const std::exception& error) {
    std::unique_lock lock(mutex_);
    EndSlot(lock, slot, Error(ErrorKind::kRun, error.what()));
  }
}

void Scheduler::Impl::CountRows(TextSlot& slot) {
  const std::lock_guard lock(mutex_);
  ScheduledText& text = *slot.text;
  text.in_pass = false;
  if (text.phase == TextProgress::Phase::kPrompt) {
    text.prompt_done += slot.rows;
    status_.prompt_tokens += slot.rows;
  }
  slot.rows = 0;
}

// Takes tokens as long as they are what was guessed, and one more. logits: a row before each.
void Scheduler::Impl::ChooseTokens(TextSlot& slot, std::span<float> logits) {
  const std::shared_ptr<ScheduledText> text = slot.text;
  const size_t proposed = slot.guesses.size();
  size_t right = 0;
  for (;;) {
    const std::optional<TokenId> token = Choose(slot, NextRow(logits, engine_.vocabulary()));
    if (!token || right == proposed || *token != slot.guesses[right]) break;
    slot.right_guesses = ++right;
  }
  if (slot.text != nullptr) AcceptGuesses(slot);
  if (text->speculation) text->speculation->Checked(proposed, right);
}

// What was guessed and taken becomes part of the text.
void Scheduler::Impl::AcceptGuesses(TextSlot& slot) {
  if (!slot.guesses.empty()) engine_.Accept(*slot.sequence, slot.right_guesses);
  slot.guesses.clear();
  slot.right_guesses = 0;
}

// The next token of the text; nothing where that was its last.
std::optional<TokenId> Scheduler::Impl::Choose(TextSlot& slot, std::span<float> logits) {
  ScheduledText& text = *slot.text;
  std::vector<float> plain;  // as they are before any are forbidden
  if (text.request.likely_tokens) plain.assign(logits.begin(), logits.end());
  text.consumer->Constrain(logits);
  ChosenToken chosen = {.token = text.sampler.Sample(logits, text.history)};
  if (!plain.empty()) chosen = WithProbability(text.request, plain, chosen.token);
  if (!text.request.ignore_eos &&
      std::ranges::find(stop_tokens_, chosen.token) != stop_tokens_.end()) {
    EndWith(slot, StopReason::kEndOfText);
    return std::nullopt;
  }
  text.result.tokens.push_back(chosen.token);
  text.history.push_back(chosen.token);
  {
    const std::lock_guard lock(mutex_);
    text.phase = TextProgress::Phase::kAnswer;
    ++text.generated;
    ++status_.generated_tokens;
  }
  if (!text.consumer->Take(chosen)) {
    EndWith(slot, StopReason::kCaller);
  } else if (!text.WantsMore()) {
    EndWith(slot, StopReason::kMaxTokens);
  } else if (slot.sequence->room() == slot.right_guesses) {
    EndWith(slot, StopReason::kContextFull);
  } else {
    return chosen.token;
  }
  return std::nullopt;
}

}  // namespace kimi_k3
