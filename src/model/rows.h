// Rows: what one pass computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/sequence_state.h"

namespace kimi_k3 {

// One position of one sequence. Rows of the same sequence stand together, in order of position.
struct Row {
  SequenceState* sequence = nullptr;
  int32_t token = 0;
  bool wants_logits = false;
};

// The rows of one pass, and which run of them belongs to which sequence.
struct RowRun {
  SequenceState* sequence = nullptr;
  size_t first = 0;
  size_t count = 0;
};

// Cuts rows into the runs of one sequence each. Throws std::logic_error where a sequence's rows do
// not stand together.
std::vector<RowRun> RowRuns(std::span<const Row> rows);

}  // namespace kimi_k3
