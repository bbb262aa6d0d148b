// The plan command: what would be in memory, what would be read, and how long it would take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>

#include "cli/command_line.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

struct PlanOptions {
  EngineOptions engine;
  uint64_t prompt_tokens = 1000;  // of the prompt whose time is estimated
  size_t batch = 0;               // sequences at the most of the table for batches; 0: no table
  std::optional<std::filesystem::path> requests = {};  // that the table is for; unset: usual ones
  bool json = false;
  bool no_measure = false;  // neither the drive nor the processor, which takes about a second
};

// Opens the checkpoint, plans, measures, and writes the table or the JSON object of
// docs/streaming.md. Throws Error: kBudget with the smallest budget that would do, and whatever
// opening the checkpoint or reading from it throws.
void RunPlan(const PlanOptions& options, std::ostream& out);

// Adds `plan` to the program; chosen, it runs while arguments are parsed.
void AddPlanCommand(CLI::App& app);

}  // namespace kimi_k3
