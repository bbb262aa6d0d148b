// What a run cost: times, tokens, bytes and faults of its two phases.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/process_meter.h"
#include "cli/session_keeper.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Takes readings at the ends of the phases; docs/stats_format.md describes the file it writes.
class RunStats {
 public:
  // The prompt phase begins now, with `prompt_tokens` to compute. reused_tokens: those that the
  // state had seen before; resumed_tokens: of the answer, that were there already. keeper: saves
  // the session, or null; must outlive this.
  explicit RunStats(const Engine& engine, size_t prompt_tokens, size_t reused_tokens = 0,
                    size_t resumed_tokens = 0, const SessionKeeper* keeper = nullptr);
  // `done` tokens of the prompt are through; when all are, the decode phase begins.
  void PromptProgress(size_t done);
  // The run ends now, in whichever phase. reason: a StopReasonName, or "failed" with the message.
  void Finish(size_t generated, std::string_view reason, std::string_view error = {});

  // One line: tokens and speed of both phases, peak memory, why it ended.
  std::string Summary() const;
  // Writes the JSON file, whole or not at all; throws Error(kIo).
  void Write(const std::filesystem::path& path) const;

 private:
  struct Reading {
    std::chrono::steady_clock::time_point time;
    ProcessReading process;
    EngineCounters engine;
  };
  struct Phase {
    double seconds = 0;
    size_t tokens = 0;
    EngineCounters engine;
    ProcessReading process;
  };
  Reading Now() const;
  Phase PhaseSince(const Reading& start, size_t tokens) const;
  bool PromptIsDone() const { return prompt_done_ == prompt_tokens_; }

  const Engine& engine_;
  Reading phase_start_;
  size_t prompt_tokens_;
  size_t reused_tokens_;
  size_t resumed_tokens_;
  const SessionKeeper* keeper_;
  size_t prompt_done_ = 0;
  Phase prompt_, decode_;
  size_t generated_ = 0;
  std::string stop_reason_;
  std::string error_;
};

}  // namespace kimi_k3
