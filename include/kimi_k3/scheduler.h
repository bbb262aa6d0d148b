// Many texts at once: the rows of all that run share each pass over the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kimi_k3/drafter.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/error.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/sampling.h"

namespace kimi_k3 {

// A text to be continued.
struct TextRequest {
  std::vector<TokenId> prompt = {};                        // not empty
  size_t max_tokens = std::numeric_limits<size_t>::max();  // 0: only compute the prompt
  SamplingOptions sampling = {};
  bool ignore_eos = false;  // stop tokens are tokens like others
  // With each token its probability and that many of the likeliest ones; unset: none.
  std::optional<size_t> likely_tokens = {};
  // The answer's first tokens, chosen by an earlier run: the consumer takes them first, then the
  // text goes on from them as if it had never stopped. max_tokens counts them too. Not beside
  // likely_tokens.
  std::vector<TokenId> begun = {};
  // The prompt's tokens from this one on (at least 1) are scored: the consumer gets each with its
  // probability. Wants EngineOptions::all_prompt_logits, which keeps memory for it.
  std::optional<size_t> score_from = {};
};

struct TokenProbability {
  TokenId token = 0;
  float logprob = 0;  // natural logarithm of its probability at temperature 1, before any filter
};

// A token as it was chosen.
struct ChosenToken {
  TokenId token = 0;
  float logprob = 0;                          // where TextRequest::likely_tokens is set
  std::vector<TokenProbability> likely = {};  // in descending order
};

// How a text ended.
struct TextResult {
  StopReason reason = StopReason::kMaxTokens;
  std::vector<TokenId> tokens = {};  // generated, without the stop token
  size_t cached_tokens = 0;          // of the prompt, whose state was there already
  // Set where it ended by a failure, which `reason` then says nothing about. kInterrupted: the
  // scheduler stopped or the text was cancelled.
  std::optional<Error> error = {};
};

// Takes the tokens of one text. Called on the scheduler's thread, one call at a time: what it does
// delays everybody's next pass.
class TextConsumer {
 public:
  virtual ~TextConsumer() = default;
  // Each token that is scored, in order, before any is chosen.
  virtual void Score(const ChosenToken& /*token*/) {}
  // Before each choice: may forbid tokens by setting their logits to -infinity, not all of them.
  virtual void Constrain(std::span<float> /*logits*/) {}
  // Each token as it is chosen, the stop token excepted. False: the text ends with it.
  virtual bool Take(const ChosenToken& token) = 0;
  // Once; no call follows it.
  virtual void End(const TextResult& result) = 0;
};

// Where a text stands.
struct TextProgress {
  enum class Phase { kWaiting, kPrompt, kAnswer, kEnded };
  Phase phase = Phase::kWaiting;
  size_t ahead = 0;          // waiting: texts that begin before it
  size_t prompt_tokens = 0;  // begun ones included
  size_t prompt_done = 0;    // cached ones included
  size_t cached_tokens = 0;  // of the prompt, whose state was there already
  size_t generated = 0;
  size_t layer = 0;  // of the pass in progress, done
  size_t layers = 0;
  // Of the prompt, or of the pass that gives the next token, as far as it can be told.
  std::optional<double> seconds_left;
};

// What the scheduler has done so far, and what it does now.
struct SchedulerStatus {
  size_t sequences = 0;  // texts that can run at once
  size_t running = 0;
  size_t waiting = 0;
  size_t held = 0;   // ended texts whose state is kept
  size_t layer = 0;  // of the pass in progress
  size_t layers = 0;
  size_t pass_rows = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t cached_tokens = 0;  // of prompts, that needed no computing
  uint64_t generated_tokens = 0;
  uint64_t scored_tokens = 0;
  uint64_t failed_passes = 0;
  double pass_seconds = 0;         // of all passes together
  double median_pass_seconds = 0;  // of the latest 64 that brought no prompt; 0 before the first
  EngineCounters engine;  // after the latest pass
};

struct SchedulerOptions {
  size_t sequences = 1;      // texts that run at once; at most EngineOptions::sequences
  size_t most_waiting = 64;  // texts that wait beside those
  // Guesses at what comes next in a text, checked in its passes as far as that pays; wants
  // EngineOptions::tentative_rows. Texts stay the same. Null: none.
  std::function<std::unique_ptr<Drafter>()> make_drafter = {};
  // States that must leave memory are kept in this folder, up to so many bytes, and found again,
  // also by a later run; wants EngineOptions::sessions. Empty: they are forgotten.
  std::filesystem::path cache_dir = {};
  uint64_t most_cache_bytes = uint64_t{16} << 30;
  // Takes a line about what goes wrong with them, on the thread that makes the scheduler and on the
  // scheduler's own. Null: nothing is told.
  std::function<void(const std::string&)> tell = {};
};

struct ScheduledText;

// Runs texts through one engine on a thread of its own. Texts begin in the order in which they
// came, as sequences become free. A text is the same, bit for bit, whatever runs beside it. A
// prompt that continues a text whose state is still held costs only what is new; the state least
// recently used makes room for others. Every function may be called from any thread.
class Scheduler {
 private:
  class Impl;

 public:
  // A text on its way. Destroying it cancels the text.
  class Ticket {
   public:
    Ticket(Ticket&&) noexcept;
    Ticket& operator=(Ticket&&) noexcept;
    ~Ticket();
    TextProgress progress() const;
    // Ends the text before the next pass. The pass in progress is finished, so that a text may go
    // on from its state, unless it runs for nobody else and keeps another text waiting.
    void Cancel();

   private:
    friend class Scheduler;
    Ticket(std::shared_ptr<Impl> impl, std::shared_ptr<ScheduledText> text);
    std::shared_ptr<Impl> impl_;
    std::shared_ptr<ScheduledText> text_;
  };

  // The engine must outlive the scheduler, and nothing else may call it. Throws Error(kIo) where
  // cache_dir cannot be used.
  Scheduler(Engine& engine, const SchedulerOptions& options);
  // As Stop().
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Throws Error(kUsage) for an empty prompt, one that has no room in the context, a token outside
  // the vocabulary, sampling options out of range, begun tokens beside likely_tokens, or a token to
  // be scored that the prompt does not have. Nothing where too many wait already or the
  // scheduler has stopped.
  std::optional<Ticket> Submit(TextRequest request, std::shared_ptr<TextConsumer> consumer);

  SchedulerStatus status() const;

  // Ends every text as interrupted, after the layer in progress at the latest, keeps what cache_dir
  // is to keep, and ends the thread.
  void Stop();

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace kimi_k3
