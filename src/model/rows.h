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
  // It may be taken back (SequenceState::tentative); so may all later rows of its sequence.
  bool tentative = false;
};

// The rows of one pass, and which run of them belongs to which sequence.
struct RowRun {
  SequenceState* sequence = nullptr;
  size_t first = 0;
  size_t count = 0;
  size_t tentative = 0;  // the last of them
  size_t certain() const { return count - tentative; }
};

// Cuts rows into the runs of one sequence each. Throws std::logic_error where a sequence's rows do
// not stand together, where a tentative row comes before one that is not, or where there are more
// of them than the sequence has room for.
std::vector<RowRun> RowRuns(std::span<const Row> rows);

}  // namespace kimi_k3
