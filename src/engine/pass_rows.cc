// What a pass of the scheduler computes: which rows of which texts.
#include "engine/pass_rows.h"

#include <algorithm>

namespace kimi_k3 {
namespace {

using Phase = TextProgress::Phase;

// One row in so many is kept for prompts while any wait.
constexpr size_t kPromptShare = 4;

// Rows that prompts still need.
size_t PromptRows(std::span<const TextSlot> slots) {
  size_t rows = 0;
  for (const TextSlot& slot : slots) {
    if (!slot.in_phase(Phase::kPrompt)) continue;
    rows += slot.text->history.size() - slot.sequence->tokens().size();
  }
  return rows;
}

bool IsAlone(std::span<const TextSlot> slots) {
  return std::ranges::count_if(slots, [](const TextSlot& slot) { return slot.text != nullptr; }) ==
         1;
}

}  // namespace

void PassRows::Choose(std::span<TextSlot> slots) {
  rows_.clear();
  slots_.clear();
  const bool alone = IsAlone(slots);
  size_t room = most_rows_ - std::min(most_rows_ / kPromptShare, PromptRows(slots));
  for (const bool prompts : {false, true}) {
    if (prompts) room = most_rows_ - rows_.size();
    for (size_t i = 0; i < slots.size(); ++i) {
      TextSlot& slot = slots[(first_ + i) % slots.size()];
      if (slot.text == nullptr || slot.in_phase(Phase::kPrompt) != prompts) continue;
      slot.rows = AddRows(slot, room);
      room -= slot.rows;
      if (!prompts && slot.rows > 0 && alone) room -= AddGuesses(slot, room);
      slot.text->in_pass = slot.rows > 0;
      if (slot.rows > 0) slots_.push_back(&slot);
    }
  }
  first_ = (first_ + 1) % slots.size();
}

size_t PassRows::AddRows(TextSlot& slot, size_t room) {
  const ScheduledText& text = *slot.text;
  const size_t seen = slot.sequence->tokens().size();
  const size_t count = std::min(room, text.history.size() - seen);
  for (size_t i = seen; i < seen + count; ++i) {
    const bool chooses = i + 1 == text.history.size() && text.WantsMore();
    rows_.push_back({.sequence = &*slot.sequence,
                     .token = text.history[i],
                     .wants_logits = chooses || text.IsScored(i + 1)});
  }
  return count;
}

// Guesses behind the rows of a text that is alone; returns how many.
size_t PassRows::AddGuesses(TextSlot& slot, size_t room) {
  ScheduledText& text = *slot.text;
  if (!text.speculation) return 0;
  const size_t tokens = text.request.max_tokens - text.result.tokens.size() - 1;
  const size_t positions = slot.sequence->room() - slot.rows;
  slot.guesses = text.speculation->Propose(text.history, std::min({room, tokens, positions}));
  for (const TokenId guess : slot.guesses) {
    rows_.push_back(
        {.sequence = &*slot.sequence, .token = guess, .wants_logits = true, .tentative = true});
  }
  return slot.guesses.size();
}

size_t PassRows::wanted_logits() const {
  return static_cast<size_t>(std::ranges::count_if(rows_, &PassRow::wants_logits));
}

}  // namespace kimi_k3
