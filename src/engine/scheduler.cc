// What may be asked of the scheduler from any thread: texts handed over, cancelled, told about.
#include "kimi_k3/scheduler.h"

#include <algorithm>
#include <utility>

#include "engine/scheduler_impl.h"

namespace kimi_k3 {
namespace {

// Whether the text goes on from where the slot's will be after the pass in progress.
bool ContinuesPass(const ScheduledText& text, const TextSlot& slot) {
  const ScheduledText& running = *slot.text;
  const bool prompt = running.phase == TextProgress::Phase::kPrompt;
  const size_t known = prompt ? running.prompt_done + slot.rows : running.history.size();
  const std::span<const TokenId> reusable = text.reusable();
  return known < reusable.size() &&
         std::equal(reusable.begin(), reusable.begin() + static_cast<ptrdiff_t>(known),
                    running.history.begin());
}

}  // namespace

Scheduler::Impl::Impl(Engine& engine, const SchedulerOptions& options)
    : engine_(engine),
      options_(options),
      stop_tokens_(engine.StopTokens()),
      slots_(engine, options.sequences, options.cache_dir, options.most_cache_bytes, options.tell),
      pass_(engine.max_rows()) {
  status_.sequences = options.sequences;
  status_.layers = engine.layers();
  status_.engine = engine.counters();
  engine_.SetProgress([this](const PassProgress& progress) {
    const std::lock_guard lock(mutex_);
    status_.layer = progress.layer;
  });
  thread_ = std::thread([this] { Run(); });
}

std::shared_ptr<ScheduledText> Scheduler::Impl::Submit(TextRequest request,
                                                       std::shared_ptr<TextConsumer> consumer) {
  CheckTextRequest(request, engine_);
  auto text = std::make_shared<ScheduledText>(std::move(request), std::move(consumer));
  if (options_.make_drafter && engine_.max_rows() > 1) {
    text->drafter = options_.make_drafter();
    text->speculation.emplace(*text->drafter,
                              std::min(engine_.tentative_rows(), engine_.max_rows() - 1));
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return nullptr;
  const size_t free = slots_.all().size() - slots_.running();
  if (waiting_.size() >= options_.most_waiting + free) return nullptr;
  waiting_.push_back(text);
  InterruptIfNobodyIsLeft();
  wake_.notify_one();
  return text;
}

void Scheduler::Impl::Cancel(const std::shared_ptr<ScheduledText>& text) {
  const std::lock_guard lock(mutex_);
  if (text->phase == TextProgress::Phase::kEnded) return;
  text->cancelled = true;
  InterruptIfNobodyIsLeft();
  wake_.notify_one();
}

// A pass that nobody waits for any more still leaves states that a text may go on with: the same
// request sent again, or the conversation without the answer that was stopped. It is interrupted
// only where it keeps a text waiting that cannot.
void Scheduler::Impl::InterruptIfNobodyIsLeft() {
  if (!passing_ || waiting_.empty()) return;
  for (const TextSlot& slot : slots_.all()) {
    if (slot.text == nullptr || !slot.text->in_pass) continue;
    if (!slot.text->cancelled) return;
    for (const auto& waiting : waiting_) {
      if (ContinuesPass(*waiting, slot)) return;
    }
  }
  engine_.Interrupt();
}

void Scheduler::Impl::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (passing_) engine_.Interrupt();
    wake_.notify_one();
  }
  const std::lock_guard lock(join_mutex_);
  if (!thread_.joinable()) return;
  thread_.join();
  engine_.ClearInterrupt();
  engine_.SetProgress({});
}

TextProgress Scheduler::Impl::ProgressOf(const ScheduledText& text) {
  const std::lock_guard lock(mutex_);
  TextProgress progress = {.phase = text.phase,
                           .prompt_tokens = text.known_tokens(),
                           .prompt_done = text.prompt_done,
                           .cached_tokens = text.cached,
                           .generated = text.generated,
                           .layer = text.in_pass ? status_.layer : 0,
                           .layers = status_.layers,
                           .seconds_left = {}};
  if (text.phase == TextProgress::Phase::kWaiting) {
    for (const auto& other : waiting_) {
      if (other.get() == &text) break;
      ++progress.ahead;
    }
  }
  if (text.in_pass) progress.seconds_left = SecondsLeft(text);
  return progress;
}

// Later passes of a prompt are taken to be like the one in progress.
std::optional<double> Scheduler::Impl::SecondsLeft(const ScheduledText& text) const {
  if (!passing_ || status_.layer == 0) return std::nullopt;
  const double elapsed = std::chrono::duration<double>(Clock::now() - pass_start_).count();
  const double whole =
      elapsed / static_cast<double>(status_.layer) * static_cast<double>(status_.layers);
  double left = std::max(whole - elapsed, 0.0);
  if (text.phase == TextProgress::Phase::kPrompt) {
    const size_t rows = std::max<size_t>(status_.pass_rows, 1);
    const size_t later = text.known_tokens() - text.prompt_done;
    const size_t passes = (later + rows - 1) / rows;
    if (passes > 1) left += whole * static_cast<double>(passes - 1);
  }
  return left;
}

SchedulerStatus Scheduler::Impl::status() {
  const std::lock_guard lock(mutex_);
  SchedulerStatus status = status_;
  status.waiting = waiting_.size();
  status.running = slots_.running();
  status.held = slots_.held();
  return status;
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options)
    : impl_(std::make_shared<Impl>(engine, options)) {}

Scheduler::~Scheduler() { Stop(); }

std::optional<Scheduler::Ticket> Scheduler::Submit(TextRequest request,
                                                   std::shared_ptr<TextConsumer> consumer) {
  std::shared_ptr<ScheduledText> text = impl_->Submit(std::move(request), std::move(consumer));
  if (text == nullptr) return std::nullopt;
  return Ticket(impl_, std::move(text));
}

SchedulerStatus Scheduler::status() const { return impl_->status(); }

void Scheduler::Stop() { impl_->Stop(); }

Scheduler::Ticket::Ticket(std::shared_ptr<Impl> impl, std::shared_ptr<ScheduledText> text)
    : impl_(std::move(impl)), text_(std::move(text)) {}
Scheduler::Ticket::Ticket(Ticket&&) noexcept = default;
Scheduler::Ticket& Scheduler::Ticket::operator=(Ticket&& other) noexcept {
  if (this == &other) return *this;
  if (text_ != nullptr) impl_->Cancel(text_);
  impl_ = std::move(other.impl_);
  text_ = std::move(other.text_);
  return *this;
}
Scheduler::Ticket::~Ticket() {
  if (text_ != nullptr) impl_->Cancel(text_);
}

TextProgress Scheduler::Ticket::progress() const { return impl_->ProgressOf(*text_); }

void Scheduler::Ticket::Cancel() { impl_->Cancel(text_); }

}  // namespace kimi_k3
