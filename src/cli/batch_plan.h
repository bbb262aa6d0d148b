// How many sequences should share a pass: memory, bytes and time by their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "cli/plan_estimate.h"
#include "kimi_k3/engine.h"
#include "residency/memory_plan.h"

namespace kimi_k3 {

// The most that are planned for where nobody says how many: beyond it multiplying takes the time.
inline constexpr size_t kUsualMostSequences = 64;

// What a process that answers a batch holds more, when it opens the engine, than one that plans it.
inline constexpr uint64_t kBatchProcessBytes = uint64_t{4} << 20;

// What requests ask for besides their number.
struct BatchDemand {
  uint64_t longest_line_bytes = uint64_t{1} << 16;
  bool scores = false;
};

// The (resolved) options with what such requests ask for.
EngineOptions OptionsForBatch(EngineOptions options, const BatchDemand& demand);

// What a batch has room in.
struct BatchRoom {
  uint64_t resident_bytes = 0;  // as MakePlanRequest has it
  // In EngineOptions::state_dir; unset: there is no such folder, or it does not tell.
  std::optional<uint64_t> state_dir_bytes = {};
};

// Looks into the options' state_dir. Throws as StateFile::RoomIn.
BatchRoom BatchRoomOf(const EngineOptions& options, uint64_t resident_bytes);

// A plan for so many sequences, one row of each in a pass.
struct BatchChoice {
  size_t sequences = 1;
  MemoryPlan plan;
  uint64_t state_bytes = 0;      // of all sequences
  uint64_t bytes_per_pass = 0;   // read, with the head; experts that several rows share once
  uint64_t bytes_per_token = 0;  // a token is one row of a pass
  // Of states on disk, with full caches: room there, and what a pass moves (bytes_per_pass has what
  // it reads).
  uint64_t state_dir_bytes = 0;
  uint64_t states_read_per_pass = 0;
  uint64_t states_written_per_pass = 0;
  uint64_t written_per_token = 0;
};

// For 1, 2, 4 ... sequences and for `most`, as far as the budget of the (resolved) options and
// their state_dir have room for them; where they do not for all, the most that they have room for
// is the last. Throws Error where there is none for one: kBudget, or kIo for the state_dir.
std::vector<BatchChoice> PlanBatches(const Checkpoint& checkpoint, const EngineOptions& options,
                                     const BatchRoom& room, size_t most);

// The one that reads and writes least for a token; of equal ones the one with the most sequences.
const BatchChoice& RecommendedBatch(std::span<const BatchChoice> choices);

// Tokens of all sequences together, by a speed that was measured.
double TokensPerSecond(const Checkpoint& checkpoint, const BatchChoice& choice,
                       const PlanEstimate& estimate);

}  // namespace kimi_k3
