// What a batch cost, as a file for other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "kimi_k3/engine.h"
#include "kimi_k3/scheduler.h"

namespace kimi_k3 {

struct BatchTotals {
  size_t requests = 0;
  size_t done_before = 0;  // by earlier runs
  size_t done = 0;         // by this one
  size_t unanswered = 0;   // of both
  size_t prompt_tokens = 0;
  double seconds = 0;
  uint64_t result_bytes = 0;
  SchedulerStatus scheduler;
};

// Writes the JSON object of docs/stats_format.md, whole or not at all. error: why the run failed or
// was interrupted; empty: it did not. Throws Error(kIo).
void WriteBatchStats(const std::filesystem::path& path, const Engine& engine,
                     const BatchTotals& totals, const std::string& stop_reason,
                     const std::string& error);

}  // namespace kimi_k3
