// A batch at work: keeps the scheduler busy with requests and writes results as they come.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/batch_input.h"
#include "cli/batch_journal.h"
#include "cli/batch_output.h"
#include "cli/batch_stats.h"
#include "cli/batch_text.h"
#include "cli/output.h"
#include "kimi_k3/constraint.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/scheduler.h"
#include "server/server_options.h"

namespace kimi_k3 {

struct BatchRunOptions {
  size_t sequences = 1;    // texts at once
  ServerOptions defaults;  // of requests that name none: model, temperature, top-p, tokens
  uint64_t seed = 0;       // of the seeds of requests that name none
};

// Runs once. What it is given must outlive it.
class BatchRun {
 public:
  BatchRun(Engine& engine, const BatchInput& input, BatchOutput& results, BatchJournal& journal,
           const BatchRunOptions& options, Output& output);

  // Until every line of the input has a result. Throws Error: kIo where a result cannot be written,
  // kInterrupted where the user asks to stop, and what the engine fails with; what was finished is
  // written by then, and what is half finished is in the journal.
  void Execute();

  BatchTotals Totals() const;  // so far

 private:
  using Clock = std::chrono::steady_clock;

  // Hands over requests while there is room for more.
  void Submit();
  void SubmitLine(size_t index);
  void SubmitRequest(size_t index, const BatchRequest& request);
  server::PreparedAnswer Prepare(size_t index, const BatchRequest& request) const;
  void Refuse(size_t index, const BatchRequest& request, const server::ApiError& error);
  void Write(const std::vector<FinishedText>& texts);
  void KeepBegun(bool now);
  void Stop();
  void ShowStatus();
  std::string StatusLine() const;
  // Requests done, those on their way by their share.
  double RequestsDone() const;
  void TellEnd() const;

  // A text on its way.
  struct Running {
    Scheduler::Ticket ticket;
    size_t prompt_tokens = 0;
    size_t most_tokens = 0;
  };

  Engine& engine_;
  const BatchInput& input_;
  BatchOutput& results_;
  BatchJournal& journal_;
  const BatchRunOptions& options_;
  Output& output_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point kept_ = Clock::now();
  Clock::time_point shown_ = Clock::now();
  const ConstraintMaker constraints_;
  const uint64_t bytes_before_;
  const size_t results_before_;
  const size_t refused_before_;
  FinishedTexts finished_;
  Scheduler scheduler_;
  std::map<size_t, Running> running_;  // by line of the input
  size_t next_ = 0;                    // line of the input
  size_t prompt_tokens_ = 0;           // of texts that ended
  uint64_t result_bytes_ = 0;
};

}  // namespace kimi_k3
