// What a run cost: times, tokens, bytes and faults of its two phases.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/process_meter.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {

// Takes readings at the ends of the phases; docs/stats_format.md describes the file it writes.
class RunStats {
 public:
  // The prompt phase begins now.
  explicit RunStats(const Engine& engine);
  // The prompt is through; generation begins now.
  void PromptDone(size_t tokens);
  void GenerationDone(const GenerationResult& result);

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

  const Engine& engine_;
  Reading phase_start_;
  Phase prompt_, generation_;
  size_t generated_ = 0;
  std::string stop_reason_ = "interrupted";
};

}  // namespace kimi_k3
