// What a pass of the scheduler computes: which rows of which texts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/pass_cost.h"
#include "engine/speculation.h"
#include "engine/text_slots.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Of the scheduler's thread.
class PassRows {
 public:
  // most_rows: of a pass.
  explicit PassRows(size_t most_rows) : most_rows_(most_rows) {}

  // One row for each text that is being generated, then prompts with the room that is left, of
  // which they have some whatever else runs, then guesses as far as they pay. Where a pass has
  // fewer rows than there are texts, they take turns. Sets the slots' rows, guesses and
  // wanted_logits and the texts' in_pass.
  void Choose(std::span<TextSlot> slots, const PassCost& cost);

  std::span<const PassRow> rows() const { return rows_; }
  std::span<TextSlot* const> slots() const { return slots_; }  // in the order of rows
  size_t wanted_logits() const;                                // rows
  bool has_prompts() const { return has_prompts_; }

 private:
  void CountRows(std::span<TextSlot> slots);
  void Guess(TextSlot& slot, const PassCost& cost, PassOutlook& pass) const;
  void AddRows(TextSlot& slot);

  const size_t most_rows_;
  std::vector<PassRow> rows_;
  std::vector<TextSlot*> slots_;
  bool has_prompts_ = false;
  size_t first_ = 0;  // slot that is served first in the next pass
};

}  // namespace kimi_k3
