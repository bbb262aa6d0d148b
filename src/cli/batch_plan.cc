// How many sequences should share a pass: memory, bytes and time by their number.
#include "cli/batch_plan.h"

#include <algorithm>

#include "base/error.h"
#include "engine/engine_plan.h"

namespace kimi_k3 {
namespace {

// What a pass of `rows` rows moves of states on disk.
void CountMovedStates(const Checkpoint& checkpoint, const EngineOptions& options, size_t rows,
                      BatchChoice& choice) {
  const size_t on_disk = choice.sequences - choice.plan.sequences_in_memory;
  if (on_disk == 0) return;
  const StateLayout layout = MakeStateLayout(checkpoint.config(), options);
  const uint64_t moved = (rows * on_disk + choice.sequences - 1) / choice.sequences;
  choice.state_dir_bytes = on_disk * layout.sequence_bytes();
  choice.states_read_per_pass = moved * layout.most_read_bytes();
  choice.states_written_per_pass = moved * layout.most_written_bytes();
}

// Nothing where the budget has no room for them.
std::optional<BatchChoice> PlanFor(const Checkpoint& checkpoint, EngineOptions options,
                                   uint64_t resident_bytes, size_t sequences) {
  options.sequences = sequences;
  const PlanRequest request = MakePlanRequest(checkpoint, options, resident_bytes);
  BatchChoice choice = {
      .sequences = sequences, .plan = {}, .state_bytes = sequences * request.sequence_bytes};
  try {
    choice.plan = MakeMemoryPlan(checkpoint, request);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBudget || sequences == 1) throw;
    return std::nullopt;
  }
  // More sequences than a pass has rows take turns.
  const size_t rows = std::min(sequences, choice.plan.chunk_rows);
  CountMovedStates(checkpoint, options, rows, choice);
  choice.bytes_per_pass =
      BytesOfPass(checkpoint, choice.plan, rows, true) + choice.states_read_per_pass;
  choice.bytes_per_token = choice.bytes_per_pass / rows;
  choice.written_per_token = choice.states_written_per_pass / rows;
  return choice;
}

}  // namespace

std::vector<BatchChoice> PlanBatches(const Checkpoint& checkpoint, const EngineOptions& options,
                                     uint64_t resident_bytes, size_t most) {
  std::vector<BatchChoice> choices;
  size_t too_many = most + 1;
  for (size_t sequences = 1; sequences < too_many; sequences = std::min(2 * sequences, most)) {
    std::optional<BatchChoice> choice = PlanFor(checkpoint, options, resident_bytes, sequences);
    if (choice) {
      choices.push_back(std::move(*choice));
    } else {
      too_many = sequences;
    }
    if (sequences == most) break;
  }
  if (choices.back().sequences == most) return choices;
  // The most that there is room for lies between.
  size_t fits = choices.back().sequences;
  while (fits + 1 < too_many) {
    const size_t middle = fits + (too_many - fits) / 2;
    std::optional<BatchChoice> choice = PlanFor(checkpoint, options, resident_bytes, middle);
    if (!choice) {
      too_many = middle;
      continue;
    }
    fits = middle;
    if (choices.size() > 1 && (choices.back().sequences & (choices.back().sequences - 1)) != 0) {
      choices.pop_back();
    }
    choices.push_back(std::move(*choice));
  }
  return choices;
}

const BatchChoice& RecommendedBatch(std::span<const BatchChoice> choices) {
  const auto moved = [](const BatchChoice& choice) {
    return choice.bytes_per_token + choice.written_per_token;
  };
  const BatchChoice* best = &choices.front();
  for (const BatchChoice& choice : choices) {
    if (choice.sequences > choice.plan.chunk_rows && choice.sequences > 1) continue;
    if (moved(choice) <= moved(*best)) best = &choice;
  }
  return *best;
}

double TokensPerSecond(const Checkpoint& checkpoint, const BatchChoice& choice,
                       const PlanEstimate& estimate) {
  const size_t rows = std::min(choice.sequences, choice.plan.chunk_rows);
  const uint64_t moved = choice.states_read_per_pass + choice.states_written_per_pass;
  return static_cast<double>(rows) /
         PassSeconds(checkpoint, choice.plan, estimate, rows, true, moved);
}

}  // namespace kimi_k3
