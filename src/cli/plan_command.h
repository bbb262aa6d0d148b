// The plan command: what would be in memory, what would be read, and how long it would take.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>

#include "kernels/latent_attention.h"
#include "residency/stream_options.h"

namespace kimi_k3 {

struct PlanOptions {
  std::filesystem::path model_dir;
  std::optional<uint64_t> memory_bytes;  // unset: what the machine really has to spare
  std::optional<uint64_t> expert_cache_bytes;
  uint64_t context = 2048;
  uint64_t sequences = 1;
  uint64_t prompt_tokens = 1000;  // of the prompt whose time is estimated
  uint64_t prompt_chunk = 64;
  uint64_t threads = 0;  // 0: the physical cores
  kernels::CacheType cache_type = kernels::CacheType::kF32;
  IoMode io = IoMode::kAuto;
  bool json = false;
  bool measure = true;  // the drive and the processor, for about a second
};

// Opens the checkpoint, plans, measures, and writes the table or the JSON object of
// docs/streaming.md. Throws Error: kBudget with the smallest budget that would do, and whatever
// opening the checkpoint or reading from it throws.
void RunPlan(const PlanOptions& options, std::ostream& out);

// Adds `plan` to the program; chosen, it runs while arguments are parsed.
void AddPlanCommand(CLI::App& app);

}  // namespace kimi_k3
