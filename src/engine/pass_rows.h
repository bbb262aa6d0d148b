// What a pass of the scheduler computes: which rows of which texts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/text_slots.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Of the scheduler's thread.
class PassRows {
 public:
  // most_rows: of a pass.
  explicit PassRows(size_t most_rows) : most_rows_(most_rows) {}

  // One row for each text that is being generated, then prompts with the room that is left, of
  // which they have some whatever else runs. Where a pass has fewer rows than there are texts, they
  // take turns. Sets the slots' rows and guesses and the texts' in_pass.
  void Choose(std::span<TextSlot> slots);

  std::span<const PassRow> rows() const { return rows_; }
  std::span<TextSlot* const> slots() const { return slots_; }  // in the order of rows
  size_t wanted_logits() const;                                // rows

 private:
  size_t AddRows(TextSlot& slot, size_t room);
  size_t AddGuesses(TextSlot& slot, size_t room);

  const size_t most_rows_;
  std::vector<PassRow> rows_;
  std::vector<TextSlot*> slots_;
  size_t first_ = 0;  // slot that is served first in the next pass
};

}  // namespace kimi_k3
