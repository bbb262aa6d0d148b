// The scheduler's thread: lets texts in, runs passes, ends texts.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/scheduler_impl.h"

namespace kimi_k3 {
namespace {

Error StoppedError() { return {ErrorKind::kInterrupted, "the server is shutting down"}; }
Error CancelledError() { return {ErrorKind::kInterrupted, "the request was cancelled"}; }

}  // namespace

void Scheduler::Impl::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    EndCancelled(lock);
    if (stopping_) break;
    Admit(lock);
    if (slots_.running() == 0) {
      // The mutex was free meanwhile: a wish to stop may have come that nobody waited for.
      if (waiting_.empty() && !stopping_) wake_.wait(lock);
      continue;
    }
    BeginPass();
    lock.unlock();
    RunPass();
    lock.lock();
  }
  EndAll(lock);
  lock.unlock();
  slots_.KeepAll();
}

void Scheduler::Impl::EndAll(std::unique_lock<std::mutex>& lock) {
  const Error stopped = StoppedError();
  while (!waiting_.empty()) {
    const std::shared_ptr<ScheduledText> text = waiting_.front();
    waiting_.pop_front();
    EndText(lock, *text, stopped);
  }
  for (TextSlot& slot : slots_.all()) {
    if (slot.text != nullptr) EndSlot(lock, slot, stopped);
  }
}

void Scheduler::Impl::EndCancelled(std::unique_lock<std::mutex>& lock) {
  const Error cancelled = CancelledError();
  while (true) {
    const auto gone =
        std::ranges::find_if(waiting_, [](const auto& text) { return text->cancelled; });
    if (gone == waiting_.end()) break;
    const std::shared_ptr<ScheduledText> text = *gone;
    waiting_.erase(gone);
    EndText(lock, *text, cancelled);
  }
  for (TextSlot& slot : slots_.all()) {
    if (slot.text != nullptr && slot.text->cancelled) EndSlot(lock, slot, cancelled);
  }
}

// Gives free slots to those who wait, the first first.
void Scheduler::Impl::Admit(std::unique_lock<std::mutex>& lock) {
  while (!waiting_.empty()) {
    TextSlot* slot = slots_.Choose(waiting_.front()->reusable());
    if (slot == nullptr) return;
    const std::shared_ptr<ScheduledText> text = waiting_.front();
    waiting_.pop_front();
    slot->text = text;
    lock.unlock();
    std::optional<Error> failure;
    try {
      slots_.Prepare(*slot);
    } catch (const std::exception& error) {
      failure = Error(ErrorKind::kBudget, error.what());
    }
    lock.lock();
    if (failure) {
      EndSlot(lock, *slot, failure);
      continue;
    }
    text->cached = slot->sequence->tokens().size();
    text->prompt_done = text->cached;
    text->phase = TextProgress::Phase::kPrompt;
    status_.cached_tokens += text->cached;
    lock.unlock();
    TakeBegun(*slot);
    lock.lock();
  }
}

// What an earlier run chose goes to the consumer again.
void Scheduler::Impl::TakeBegun(TextSlot& slot) {
  ScheduledText& text = *slot.text;
  try {
    for (const TokenId token : text.request.begun) {
      text.result.tokens.push_back(token);
      if (text.consumer->Take({.token = token})) continue;
      EndWith(slot, StopReason::kCaller);
      return;
    }
  } catch (const std::exception& error) {
    std::unique_lock lock(mutex_);
    EndSlot(lock, slot, Error(ErrorKind::kRun, error.what()));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    text.generated = text.request.begun.size();
  }
  if (text.request.begun.empty()) return;
  if (!text.WantsMore()) {
    EndWith(slot, StopReason::kMaxTokens);
  } else if (text.known_tokens() > engine_.context()) {
    EndWith(slot, StopReason::kContextFull);
  }
}

// Requires the mutex.
void Scheduler::Impl::BeginPass() {
  pass_.Choose(slots_.all(), pass_cost_);
  status_.layer = 0;
  status_.pass_rows = pass_.rows().size();
  pass_start_ = Clock::now();
  passing_ = true;
  engine_.ClearInterrupt();
}

void Scheduler::Impl::RunPass() {
  std::optional<Error> failure;
  const auto start = Clock::now();
  try {
    logits_.resize(pass_.wanted_logits() * engine_.vocabulary());
    engine_.Forward(pass_.rows(), logits_);
  } catch (const Error& error) {
    failure = error;
  } catch (const std::exception& error) {
    failure = Error(ErrorKind::kRun, error.what());
  }
  const auto end = Clock::now();
  if (!failure && !pass_.has_prompts()) {
    pass_cost_.Saw(pass_.rows().size(), std::chrono::duration<double>(end - start).count());
  }
  {
    const std::lock_guard lock(mutex_);
    passing_ = false;
    status_.engine = engine_.counters();
    status_.pass_seconds += std::chrono::duration<double>(end - pass_start_).count();
    status_.median_pass_seconds = pass_cost_.MedianSeconds();
    // A pass that was stopped because nobody was left did not fail.
    if (failure && failure->kind() != ErrorKind::kInterrupted) ++status_.failed_passes;
  }
  std::span<float> logits = logits_;
  for (TextSlot* slot : pass_.slots()) {
    if (failure) {
      std::unique_lock lock(mutex_);
      EndSlot(lock, *slot, ReasonOf(*failure, *slot->text));
      continue;
    }
    const size_t wanted = slot->wanted_logits * engine_.vocabulary();
    Advance(*slot, logits.first(wanted));
    logits = logits.subspan(wanted);
  }
}

// A pass that was interrupted is told by why it was.
Error Scheduler::Impl::ReasonOf(const Error& failure, const ScheduledText& text) const {
  if (failure.kind() != ErrorKind::kInterrupted) return failure;
  if (text.cancelled) return CancelledError();
  return stopping_ ? StoppedError() : failure;
}

void Scheduler::Impl::EndWith(TextSlot& slot, StopReason reason) {
  slot.text->result.reason = reason;
  AcceptGuesses(slot);
  std::unique_lock lock(mutex_);
  EndSlot(lock, slot, std::nullopt);
}

void Scheduler::Impl::EndSlot(std::unique_lock<std::mutex>& lock, TextSlot& slot,
                              std::optional<Error> error) {
  const std::shared_ptr<ScheduledText> text = slots_.Free(slot);
  EndText(lock, *text, std::move(error));
}

// The consumer is told without the mutex, so that it may ask for anything.
void Scheduler::Impl::EndText(std::unique_lock<std::mutex>& lock, ScheduledText& text,
                              std::optional<Error> error) {
  text.in_pass = false;
  text.phase = TextProgress::Phase::kEnded;
  text.result.error = std::move(error);
  lock.unlock();
  try {
    text.consumer->End(text.result);
  } catch (const std::exception&) {  // nobody is left to tell
  }
  lock.lock();
}

}  // namespace kimi_k3
