// Many texts at once: the rows of all that run share each pass over the weights.
#include "kimi_k3/scheduler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "engine/likely_tokens.h"
#include "engine/speculation.h"
#include "engine/state_cache.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

// One row in so many is kept for prompts while any wait.
constexpr size_t kPromptShare = 4;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool IsProperPrefix(std::span<const TokenId> prefix, std::span<const TokenId> text) {
  return prefix.size() < text.size() && std::equal(prefix.begin(), prefix.end(), text.begin());
}

}  // namespace

// A text from its submission to its end. Fields below the line belong to the scheduler's mutex.
struct Scheduler::Job {
  Job(TextRequest given, std::shared_ptr<TextConsumer> taker)
      : request(std::move(given)),
        consumer(std::move(taker)),
        sampler(request.sampling),
        history(request.prompt) {
    history.insert(history.end(), request.begun.begin(), request.begun.end());
  }

  size_t known_tokens() const { return request.prompt.size() + request.begun.size(); }
  // Of which a state that is held may be the beginning: each token that is scored needs the row
  // before it.
  std::span<const TokenId> reusable() const {
    return std::span(history).first(request.score_from.value_or(known_tokens()));
  }

  // Of the scheduler's thread alone.
  const TextRequest request;
  const std::shared_ptr<TextConsumer> consumer;
  Sampler sampler;
  TextResult result;
  std::vector<TokenId> history;  // prompt and what was generated
  std::unique_ptr<Drafter> drafter;
  std::optional<Speculation> speculation;

  // ----
  TextProgress::Phase phase = TextProgress::Phase::kWaiting;
  size_t prompt_done = 0;
  size_t cached = 0;
  size_t generated = 0;
  bool in_pass = false;
  bool cancelled = false;
};

class Scheduler::Impl {
 public:
  Impl(Engine& engine, const SchedulerOptions& options)
      : engine_(engine), options_(options), stop_tokens_(engine.StopTokens()) {
    if (options.sequences == 0) Fail(ErrorKind::kUsage, "a scheduler needs room for one text");
    if (!options.cache_dir.empty()) cache_.emplace(options.cache_dir, options.most_cache_bytes);
    slots_.resize(options.sequences);
    status_.sequences = options.sequences;
    status_.layers = engine.layers();
    status_.engine = engine.counters();
    engine_.SetProgress([this](const PassProgress& progress) { ShowProgress(progress); });
    thread_ = std::thread([this] { Run(); });
  }

  std::shared_ptr<Job> Submit(TextRequest request, std::shared_ptr<TextConsumer> consumer) {
    CheckRequest(request);
    auto job = std::make_shared<Job>(std::move(request), std::move(consumer));
    if (options_.make_drafter && engine_.max_rows() > 1) {
      job->drafter = options_.make_drafter();
      job->speculation.emplace(*job->drafter,
                               std::min(engine_.tentative_rows(), engine_.max_rows() - 1));
    }
    const std::lock_guard lock(mutex_);
    if (stopping_) return nullptr;
    const size_t free = static_cast<size_t>(
        std::ranges::count_if(slots_, [](const Slot& slot) { return slot.job == nullptr; }));
    if (waiting_.size() >= options_.most_waiting + free) return nullptr;
    waiting_.push_back(job);
    wake_.notify_one();
    return job;
  }

  void Cancel(const std::shared_ptr<Job>& job) {
    const std::lock_guard lock(mutex_);
    if (job->phase == TextProgress::Phase::kEnded) return;
    job->cancelled = true;
    InterruptIfNobodyIsLeft();
    wake_.notify_one();
  }

  void Stop() {
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

  TextProgress ProgressOf(const Job& job) {
    const std::lock_guard lock(mutex_);
    TextProgress progress = {.phase = job.phase,
                             .prompt_tokens = job.known_tokens(),
                             .prompt_done = job.prompt_done,
                             .cached_tokens = job.cached,
                             .generated = job.generated,
                             .layer = job.in_pass ? status_.layer : 0,
                             .layers = status_.layers,
                             .seconds_left = {}};
    if (job.phase == TextProgress::Phase::kWaiting) {
      for (const auto& other : waiting_) {
        if (other.get() == &job) break;
        ++progress.ahead;
      }
    }
    if (job.in_pass) progress.seconds_left = SecondsLeft(job);
    return progress;
  }

  SchedulerStatus status() {
    const std::lock_guard lock(mutex_);
    SchedulerStatus status = status_;
    status.waiting = waiting_.size();
    for (const Slot& slot : slots_) {
      if (slot.job != nullptr) ++status.running;
      if (slot.job == nullptr && slot.sequence && !slot.sequence->tokens().empty()) ++status.held;
    }
    return status;
  }

 private:
  // Room for one text. Of the scheduler's thread, but `job` changes under the mutex.
  struct Slot {
    std::optional<Sequence> sequence;
    std::shared_ptr<Job> job;
    uint64_t last_used = 0;
    size_t rows = 0;                    // in the pass in progress, guesses not counted
    std::vector<TokenId> guesses = {};  // that stand behind them
    size_t right_guesses = 0;           // found so far after the pass
  };

  void CheckRequest(const TextRequest& request) const {
    if (request.prompt.empty()) Fail(ErrorKind::kUsage, "the prompt is empty");
    if (request.prompt.size() > engine_.context()) {
      Fail(ErrorKind::kUsage, "the prompt has {} tokens, but the context has only {} positions",
           request.prompt.size(), engine_.context());
    }
    if (request.begun.size() > engine_.context() - request.prompt.size() + 1) {
      Fail(ErrorKind::kUsage, "prompt and answer so far have no room in the context's {} positions",
           engine_.context());
    }
    if (!request.begun.empty() && request.likely_tokens) {
      Fail(ErrorKind::kUsage, "the probabilities of an answer that was begun are not known");
    }
    const size_t first = request.score_from.value_or(1);
    if (first == 0 || (request.score_from && first >= request.prompt.size())) {
      Fail(ErrorKind::kUsage,
           "the first token to be scored is none of the prompt's {} after the first",
           request.prompt.size());
    }
    CheckTokens(request.prompt);
    CheckTokens(request.begun);
  }

  void CheckTokens(std::span<const TokenId> tokens) const {
    for (const TokenId token : tokens) {
      if (token < 0 || static_cast<size_t>(token) >= engine_.vocabulary()) {
        Fail(ErrorKind::kUsage, "token id {} is outside the model's vocabulary of {}", token,
             engine_.vocabulary());
      }
    }
  }

  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      EndCancelled(lock);
      if (stopping_) break;
      Admit(lock);
      if (!AnyRunning()) {
        // The mutex was free meanwhile: a wish to stop may have come that nobody waited for.
        if (waiting_.empty() && !stopping_) wake_.wait(lock);
        continue;
      }
      BeginPass();
      lock.unlock();
      RunPass();
      lock.lock();
    }
    const Error stopped = Stopped();
    while (!waiting_.empty()) {
      const std::shared_ptr<Job> job = waiting_.front();
      waiting_.pop_front();
      EndJob(lock, *job, stopped);
    }
    for (Slot& slot : slots_) {
      if (slot.job != nullptr) EndSlot(lock, slot, stopped);
    }
    lock.unlock();
    for (const Slot& slot : slots_) {
      if (slot.sequence) Keep(*slot.sequence);
    }
  }

  static Error Stopped() { return {ErrorKind::kInterrupted, "the server is shutting down"}; }
  static Error Cancelled() { return {ErrorKind::kInterrupted, "the request was cancelled"}; }

  // A pass that was interrupted is told by why it was. Requires the mutex.
  Error ReasonOf(const Error& failure, const Job& job) const {
    if (failure.kind() != ErrorKind::kInterrupted) return failure;
    if (job.cancelled) return Cancelled();
    return stopping_ ? Stopped() : failure;
  }

  bool AnyRunning() const {
    return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.job != nullptr; });
  }

  void EndCancelled(std::unique_lock<std::mutex>& lock) {
    const Error cancelled = Cancelled();
    while (true) {
      const auto gone =
          std::ranges::find_if(waiting_, [](const auto& job) { return job->cancelled; });
      if (gone == waiting_.end()) break;
      const std::shared_ptr<Job> job = *gone;
      waiting_.erase(gone);
      EndJob(lock, *job, cancelled);
    }
    for (Slot& slot : slots_) {
      if (slot.job != nullptr && slot.job->cancelled) EndSlot(lock, slot, cancelled);
    }
  }

  // Gives free slots to those who wait, the first first.
  void Admit(std::unique_lock<std::mutex>& lock) {
    while (!waiting_.empty()) {
      Slot* slot = ChooseSlot(waiting_.front()->reusable());
      if (slot == nullptr) return;
      const std::shared_ptr<Job> job = waiting_.front();
      waiting_.pop_front();
      slot->job = job;
      lock.unlock();
      std::optional<Error> failure;
      try {
        Prepare(*slot);
      } catch (const std::exception& error) {
        failure = Error(ErrorKind::kBudget, error.what());
      }
      lock.lock();
      if (failure) {
        EndSlot(lock, *slot, failure);
        continue;
      }
      job->cached = slot->sequence->tokens().size();
      job->prompt_done = job->cached;
      job->phase = TextProgress::Phase::kPrompt;
      status_.cached_tokens += job->cached;
      lock.unlock();
      TakeBegun(*slot);
      lock.lock();
    }
  }

  // What an earlier run chose goes to the consumer again.
  void TakeBegun(Slot& slot) {
    Job& job = *slot.job;
    try {
      for (const TokenId token : job.request.begun) {
        job.result.tokens.push_back(token);
        if (job.consumer->Take({.token = token})) continue;
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
      job.generated = job.request.begun.size();
    }
    if (job.request.begun.empty()) return;
    if (!WantsMore(job)) {
      EndWith(slot, StopReason::kMaxTokens);
    } else if (job.known_tokens() > engine_.context()) {
      EndWith(slot, StopReason::kContextFull);
    }
  }

  // The free slot whose text the prompt continues furthest, else an unused one, else the least
  // recently used; null where none is free.
  Slot* ChooseSlot(std::span<const TokenId> prompt) {
    Slot* best = nullptr;
    size_t most = 0;
    Slot* unused = nullptr;
    Slot* oldest = nullptr;
    for (Slot& slot : slots_) {
      if (slot.job != nullptr) continue;
      const std::span<const TokenId> held =
          slot.sequence ? slot.sequence->tokens() : std::span<const TokenId>{};
      if (held.empty()) {
        // A sequence that exists costs no new memory.
        if (unused == nullptr || (!unused->sequence && slot.sequence)) unused = &slot;
        continue;
      }
      if (held.size() > most && IsProperPrefix(held, prompt)) {
        most = held.size();
        best = &slot;
      }
      if (oldest == nullptr || slot.last_used < oldest->last_used) oldest = &slot;
    }
    if (best != nullptr) return best;
    return unused != nullptr ? unused : oldest;
  }

  // Brings the slot's sequence to the longest beginning of the prompt that is known.
  void Prepare(Slot& slot) {
    Job& job = *slot.job;
    const std::span<const TokenId> prompt = job.reusable();
    if (!slot.sequence) slot.sequence.emplace(engine_.NewSequence());
    Sequence& sequence = *slot.sequence;
    if (!sequence.intact()) sequence.Reset();
    const bool continues = IsProperPrefix(sequence.tokens(), prompt);
    const size_t on_disk = cache_ ? cache_->TokensFor(prompt) : 0;
    if (!continues) {
      Keep(sequence);
      sequence.Reset();
    }
    if (on_disk > sequence.tokens().size()) cache_->Load(engine_, sequence, prompt);
    job.result.cached_tokens = sequence.tokens().size();
  }

  // The state is about to leave memory.
  void Keep(const Sequence& sequence) {
    if (cache_ && sequence.intact() && !sequence.tokens().empty()) cache_->Save(engine_, sequence);
  }

  // One row for each text that is being generated, then prompts with the room that is left, of
  // which they have some whatever else runs. Where a pass has fewer rows than there are texts, they
  // take turns.
  void BeginPass() {
    rows_.clear();
    pass_slots_.clear();
    size_t room = engine_.max_rows() - std::min(engine_.max_rows() / kPromptShare, PromptRows());
    for (const bool prompts : {false, true}) {
      if (prompts) room = engine_.max_rows() - rows_.size();
      for (size_t i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[(first_ + i) % slots_.size()];
        if (slot.job == nullptr) continue;
        if ((slot.job->phase == TextProgress::Phase::kPrompt) != prompts) continue;
        slot.rows = AddRows(slot, room);
        room -= slot.rows;
        if (!prompts && slot.rows > 0) room -= AddGuesses(slot, room);
        slot.job->in_pass = slot.rows > 0;
        if (slot.rows > 0) pass_slots_.push_back(&slot);
      }
    }
    first_ = (first_ + 1) % slots_.size();
    status_.layer = 0;
    status_.pass_rows = rows_.size();
    pass_start_ = Clock::now();
    passing_ = true;
    engine_.ClearInterrupt();
  }

  // Rows that prompts still need.
  size_t PromptRows() const {
    size_t rows = 0;
    for (const Slot& slot : slots_) {
      if (slot.job == nullptr || slot.job->phase != TextProgress::Phase::kPrompt) continue;
      rows += slot.job->history.size() - slot.sequence->tokens().size();
    }
    return rows;
  }

  size_t AddRows(Slot& slot, size_t room) {
    const Job& job = *slot.job;
    const size_t seen = slot.sequence->tokens().size();
    const size_t count = std::min(room, job.history.size() - seen);
    for (size_t i = seen; i < seen + count; ++i) {
      const bool chooses = i + 1 == job.history.size() && WantsMore(job);
      rows_.push_back({.sequence = &*slot.sequence,
                       .token = job.history[i],
                       .wants_logits = chooses || IsScored(job, i + 1)});
    }
    return count;
  }

  // Guesses behind the rows of a text that is alone; returns how many.
  size_t AddGuesses(Slot& slot, size_t room) {
    Job& job = *slot.job;
    const auto runs = [](const Slot& other) { return other.job != nullptr; };
    if (!job.speculation || std::ranges::count_if(slots_, runs) != 1) return 0;
    const size_t tokens = job.request.max_tokens - job.result.tokens.size() - 1;
    const size_t positions = slot.sequence->room() - slot.rows;
    slot.guesses = job.speculation->Propose(job.history, std::min({room, tokens, positions}));
    for (const TokenId guess : slot.guesses) {
      rows_.push_back(
          {.sequence = &*slot.sequence, .token = guess, .wants_logits = true, .tentative = true});
    }
    return slot.guesses.size();
  }

  static bool IsScored(const Job& job, size_t position) {
    return job.request.score_from && position >= *job.request.score_from &&
           position < job.request.prompt.size();
  }

  static bool WantsMore(const Job& job) {
    return job.result.tokens.size() < job.request.max_tokens;
  }

  void RunPass() {
    const auto wanted = static_cast<size_t>(std::ranges::count_if(rows_, &PassRow::wants_logits));
    std::optional<Error> failure;
    const auto start = Clock::now();
    try {
      logits_.resize(wanted * engine_.vocabulary());
      engine_.Forward(rows_, logits_);
    } catch (const Error& error) {
      failure = error;
    } catch (const std::exception& error) {
      failure = Error(ErrorKind::kRun, error.what());
    }
    const double seconds = SecondsSince(start);
    {
      const std::lock_guard lock(mutex_);
      passing_ = false;
      status_.engine = engine_.counters();
      status_.pass_seconds += SecondsSince(pass_start_);
      // A pass that was stopped because nobody was left did not fail.
      if (failure && failure->kind() != ErrorKind::kInterrupted) ++status_.failed_passes;
    }
    size_t next_row = 0;
    for (Slot* slot : pass_slots_) {
      if (failure) {
        std::unique_lock lock(mutex_);
        EndSlot(lock, *slot, ReasonOf(*failure, *slot->job));
      } else {
        Advance(*slot, next_row, seconds);
      }
    }
  }

  // The next row of logits.
  std::span<float> NextLogits(size_t& next_row) {
    return std::span(logits_).subspan(next_row++ * engine_.vocabulary(), engine_.vocabulary());
  }

  // After a pass of so many seconds: the prompt is further, or tokens are chosen.
  void Advance(Slot& slot, size_t& next_row, double seconds) {
    Job& job = *slot.job;
    const size_t end = slot.sequence->tokens().size();
    std::vector<std::pair<size_t, std::span<float>>> scored;  // positions and the logits before
    for (size_t i = end - slot.rows + 1; i <= end; ++i) {
      if (IsScored(job, i)) scored.emplace_back(i, NextLogits(next_row));
    }
    std::span<float> choice;
    if (end == job.history.size() && WantsMore(job)) choice = NextLogits(next_row);
    std::optional<double> token_seconds;
    {
      const std::lock_guard lock(mutex_);
      job.in_pass = false;
      if (job.phase == TextProgress::Phase::kAnswer) token_seconds = seconds;
      if (job.phase == TextProgress::Phase::kPrompt) {
        job.prompt_done += slot.rows;
        status_.prompt_tokens += slot.rows;
      }
    }
    slot.rows = 0;
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      cancelled = job.cancelled || stopping_;
    }
    if (cancelled) return;  // its end comes before the next pass
    try {
      for (const auto& [position, logits] : scored) {
        job.consumer->Score(Probability(job, logits, job.history[position]));
      }
      if (!scored.empty()) {
        const std::lock_guard lock(mutex_);
        status_.scored_tokens += scored.size();
      }
      if (end < job.history.size()) return;
      if (choice.empty()) {
        EndWith(slot, StopReason::kMaxTokens);
      } else {
        ChooseTokens(slot, choice, next_row, token_seconds);
      }
    } catch (const std::exception& error) {
      std::unique_lock lock(mutex_);
      EndSlot(lock, slot, Error(ErrorKind::kRun, error.what()));
    }
  }

  // A token with its probability, and the likeliest as far as they are asked for.
  static ChosenToken Probability(const Job& job, std::span<const float> logits, TokenId token) {
    const double log_sum = LogSumExp(logits);
    const auto logit = static_cast<double>(logits[static_cast<size_t>(token)]);
    ChosenToken chosen = {.token = token, .logprob = static_cast<float>(logit - log_sum)};
    const size_t likely = job.request.likely_tokens.value_or(0);
    if (likely > 0) chosen.likely = LikelyTokens(logits, log_sum, likely);
    return chosen;
  }

  // Takes tokens as long as they are what was guessed, and one more. seconds: that the pass took,
  // where it had no prompt.
  void ChooseTokens(Slot& slot, std::span<float> logits, size_t& next_row,
                    std::optional<double> seconds) {
    const std::shared_ptr<Job> job = slot.job;
    const size_t proposed = slot.guesses.size();
    size_t right = 0;
    for (;;) {
      const std::optional<TokenId> token = Choose(slot, logits);
      if (!token || right == proposed || *token != slot.guesses[right]) break;
      slot.right_guesses = ++right;
      logits = NextLogits(next_row);
    }
    if (slot.job != nullptr) AcceptGuesses(slot);
    if (job->speculation && seconds) job->speculation->Checked(proposed, right, *seconds);
  }

  // What was guessed and taken becomes part of the text.
  void AcceptGuesses(Slot& slot) {
    if (!slot.guesses.empty()) engine_.Accept(*slot.sequence, slot.right_guesses);
    slot.guesses.clear();
    slot.right_guesses = 0;
  }

  // The next token of the text; nothing where that was its last.
  std::optional<TokenId> Choose(Slot& slot, std::span<float> logits) {
    Job& job = *slot.job;
    std::vector<float> plain;  // as they are before any are forbidden
    if (job.request.likely_tokens) plain.assign(logits.begin(), logits.end());
    job.consumer->Constrain(logits);
    ChosenToken chosen = {.token = job.sampler.Sample(logits, job.history)};
    if (!plain.empty()) chosen = Probability(job, plain, chosen.token);
    if (!job.request.ignore_eos &&
        std::ranges::find(stop_tokens_, chosen.token) != stop_tokens_.end()) {
      EndWith(slot, StopReason::kEndOfText);
      return std::nullopt;
    }
    job.result.tokens.push_back(chosen.token);
    job.history.push_back(chosen.token);
    {
      const std::lock_guard lock(mutex_);
      job.phase = TextProgress::Phase::kAnswer;
      ++job.generated;
      ++status_.generated_tokens;
    }
    if (!job.consumer->Take(chosen)) {
      EndWith(slot, StopReason::kCaller);
    } else if (!WantsMore(job)) {
      EndWith(slot, StopReason::kMaxTokens);
    } else if (slot.sequence->room() == slot.right_guesses) {
      EndWith(slot, StopReason::kContextFull);
    } else {
      return chosen.token;
    }
    return std::nullopt;
  }

  void EndWith(Slot& slot, StopReason reason) {
    slot.job->result.reason = reason;
    AcceptGuesses(slot);
    std::unique_lock lock(mutex_);
    EndSlot(lock, slot, std::nullopt);
  }

  // Frees the slot, whose sequence stays for a text that continues it.
  void EndSlot(std::unique_lock<std::mutex>& lock, Slot& slot, std::optional<Error> error) {
    const std::shared_ptr<Job> job = std::exchange(slot.job, nullptr);
    slot.rows = 0;
    slot.guesses.clear();
    slot.right_guesses = 0;
    slot.last_used = ++uses_;
    if (slot.sequence && !slot.sequence->intact()) slot.sequence->Reset();
    EndJob(lock, *job, std::move(error));
  }

  // The consumer is told without the mutex, so that it may ask for anything.
  static void EndJob(std::unique_lock<std::mutex>& lock, Job& job, std::optional<Error> error) {
    job.in_pass = false;
    job.phase = TextProgress::Phase::kEnded;
    job.result.error = std::move(error);
    lock.unlock();
    try {
      job.consumer->End(job.result);
    } catch (const std::exception&) {  // nobody is left to tell
    }
    lock.lock();
  }

  // Requires the mutex.
  void InterruptIfNobodyIsLeft() {
    if (!passing_) return;
    for (const Slot& slot : slots_) {
      if (slot.job != nullptr && slot.job->in_pass && !slot.job->cancelled) return;
    }
    engine_.Interrupt();
  }

  void ShowProgress(const PassProgress& progress) {
    const std::lock_guard lock(mutex_);
    status_.layer = progress.layer;
  }

  // Requires the mutex. Later passes of a prompt are taken to be like the one in progress.
  std::optional<double> SecondsLeft(const Job& job) const {
    if (!passing_ || status_.layer == 0) return std::nullopt;
    const double elapsed = SecondsSince(pass_start_);
    const double whole =
        elapsed / static_cast<double>(status_.layer) * static_cast<double>(status_.layers);
    double left = std::max(whole - elapsed, 0.0);
    if (job.phase == TextProgress::Phase::kPrompt) {
      const size_t rows = std::max<size_t>(status_.pass_rows, 1);
      const size_t later = job.known_tokens() - job.prompt_done;
      const size_t passes = (later + rows - 1) / rows;
      if (passes > 1) left += whole * static_cast<double>(passes - 1);
    }
    return left;
  }

  Engine& engine_;
  const SchedulerOptions options_;
  const std::vector<TokenId> stop_tokens_;
  std::optional<StateCache> cache_;
  std::vector<Slot> slots_;
  std::vector<PassRow> rows_;
  std::vector<Slot*> pass_slots_;  // in the order of rows
  std::vector<float> logits_;
  size_t first_ = 0;  // slot that is served first in the next pass
  uint64_t uses_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> waiting_;
  SchedulerStatus status_;
  Clock::time_point pass_start_;
  bool passing_ = false;
  bool stopping_ = false;

  std::mutex join_mutex_;
  std::thread thread_;
};

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options)
    : impl_(std::make_shared<Impl>(engine, options)) {}

Scheduler::~Scheduler() { Stop(); }

std::optional<Scheduler::Ticket> Scheduler::Submit(TextRequest request,
                                                   std::shared_ptr<TextConsumer> consumer) {
  std::shared_ptr<Job> job = impl_->Submit(std::move(request), std::move(consumer));
  if (job == nullptr) return std::nullopt;
  return Ticket(impl_, std::move(job));
}

SchedulerStatus Scheduler::status() const { return impl_->status(); }

void Scheduler::Stop() { impl_->Stop(); }

Scheduler::Ticket::Ticket(std::shared_ptr<Impl> impl, std::shared_ptr<Job> job)
    : impl_(std::move(impl)), job_(std::move(job)) {}
Scheduler::Ticket::Ticket(Ticket&&) noexcept = default;
Scheduler::Ticket& Scheduler::Ticket::operator=(Ticket&& other) noexcept {
  if (this == &other) return *this;
  if (job_ != nullptr) impl_->Cancel(job_);
  impl_ = std::move(other.impl_);
  job_ = std::move(other.job_);
  return *this;
}
Scheduler::Ticket::~Ticket() {
  if (job_ != nullptr) impl_->Cancel(job_);
}

TextProgress Scheduler::Ticket::progress() const { return impl_->ProgressOf(*job_); }

void Scheduler::Ticket::Cancel() { impl_->Cancel(job_); }

}  // namespace kimi_k3
