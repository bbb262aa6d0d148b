// The scheduler at work: its thread, and what others may ask of it meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/pass_cost.h"
#include "engine/pass_rows.h"
#include "engine/scheduled_text.h"
#include "engine/text_slots.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/error.h"
#include "kimi_k3/scheduler.h"

namespace kimi_k3 {

class Scheduler::Impl {
 public:
  Impl(Engine& engine, const SchedulerOptions& options);

  // From any thread; as the scheduler's functions of these names.
  std::shared_ptr<ScheduledText> Submit(TextRequest request,
                                        std::shared_ptr<TextConsumer> consumer);
  void Cancel(const std::shared_ptr<ScheduledText>& text);
  void Stop();
  TextProgress ProgressOf(const ScheduledText& text);
  SchedulerStatus status();

 private:
  using Clock = std::chrono::steady_clock;

  // Require the mutex.
  void InterruptIfNobodyIsLeft();
  std::optional<double> SecondsLeft(const ScheduledText& text) const;
  Error ReasonOf(const Error& failure, const ScheduledText& text) const;

  // The thread: until it is to stop, lets texts in and runs passes (scheduler_thread.cc). The
  // mutex, where it is given, is released while consumers are called.
  void Run();
  void EndCancelled(std::unique_lock<std::mutex>& lock);
  void EndAll(std::unique_lock<std::mutex>& lock);
  void Admit(std::unique_lock<std::mutex>& lock);
  void TakeBegun(TextSlot& slot);
  void BeginPass();
  void RunPass();
  void EndWith(TextSlot& slot, StopReason reason);
  void EndSlot(std::unique_lock<std::mutex>& lock, TextSlot& slot, std::optional<Error> error);
  static void EndText(std::unique_lock<std::mutex>& lock, ScheduledText& text,
                      std::optional<Error> error);

  // What the rows of a pass bring their texts (scheduler_results.cc).
  void Advance(TextSlot& slot, std::span<float> logits);
  void CountRows(TextSlot& slot);
  void ChooseTokens(TextSlot& slot, std::span<float> logits);
  std::optional<TokenId> Choose(TextSlot& slot, std::span<float> logits);
  void AcceptGuesses(TextSlot& slot);

  Engine& engine_;
  const SchedulerOptions options_;
  const std::vector<TokenId> stop_tokens_;
  TextSlots slots_;
  PassRows pass_;
  PassCost pass_cost_;
  std::vector<float> logits_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<ScheduledText>> waiting_;
  SchedulerStatus status_;
  Clock::time_point pass_start_;
  bool passing_ = false;
  bool stopping_ = false;

  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace kimi_k3
