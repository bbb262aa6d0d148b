// How many sequences should share a pass: memory, bytes and time by their number.
#include "cli/batch_plan.h"

#include <algorithm>

#include "base/byte_size.h"
#include "base/error.h"
#include "engine/engine_plan.h"
#include "engine/state_file.h"

namespace kimi_k3 {
namespace {

// A line as text and as objects, and what is made of it.
constexpr uint64_t kCopiesOfALine = 16;
constexpr uint64_t kOtherBatchBytes = uint64_t{8} << 20;

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

bool HasRoomForStates(const EngineOptions& options, const BatchRoom& room,
                      const BatchChoice& choice) {
  if (choice.state_dir_bytes <= room.state_dir_bytes.value_or(UINT64_MAX)) return true;
  if (choice.sequences > 1) return false;
  Fail(ErrorKind::kIo,
       "{}: has no room for the state of one text, which takes {} ({} are free): name another "
       "folder (--state-dir) or more memory (--memory)",
       options.state_dir.string(), FormatByteSize(choice.state_dir_bytes),
       FormatByteSize(*room.state_dir_bytes));
}

// Nothing where there is no room for them.
std::optional<BatchChoice> PlanFor(const Checkpoint& checkpoint, EngineOptions options,
                                   const BatchRoom& room, size_t sequences) {
  options.sequences = sequences;
  const PlanRequest request = MakePlanRequest(checkpoint, options, room.resident_bytes);
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
  if (!HasRoomForStates(options, room, choice)) return std::nullopt;
  choice.bytes_per_pass =
      BytesOfPass(checkpoint, choice.plan, rows, true) + choice.states_read_per_pass;
  choice.bytes_per_token = choice.bytes_per_pass / rows;
  choice.written_per_token = choice.states_written_per_pass / rows;
  return choice;
}

}  // namespace

EngineOptions OptionsForBatch(EngineOptions options, const BatchDemand& demand) {
  options.reserved_bytes = kOtherBatchBytes + kCopiesOfALine * demand.longest_line_bytes;
  options.all_prompt_logits = demand.scores;
  return options;
}

BatchRoom BatchRoomOf(const EngineOptions& options, uint64_t resident_bytes) {
  BatchRoom room = {.resident_bytes = resident_bytes};
  if (!options.state_dir.empty()) room.state_dir_bytes = StateFile::RoomIn(options.state_dir);
  return room;
}

std::vector<BatchChoice> PlanBatches(const Checkpoint& checkpoint, const EngineOptions& options,
                                     const BatchRoom& room, size_t most) {
  std::vector<BatchChoice> choices;
  size_t too_many = most + 1;
  for (size_t sequences = 1; sequences < too_many; sequences = std::min(2 * sequences, most)) {
    std::optional<BatchChoice> choice = PlanFor(checkpoint, options, room, sequences);
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
    std::optional<BatchChoice> choice = PlanFor(checkpoint, options, room, middle);
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
