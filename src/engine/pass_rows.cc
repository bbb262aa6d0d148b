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

size_t CountWanted(std::span<const PassRow> rows) {
  return static_cast<size_t>(std::ranges::count_if(rows, &PassRow::wants_logits));
}

}  // namespace

void PassRows::Choose(std::span<TextSlot> slots, const PassCost& cost) {
  rows_.clear();
  slots_.clear();
  has_prompts_ = false;
  CountRows(slots);
  PassOutlook pass = {.rows = 0, .tokens = 0};
  for (const TextSlot* slot : slots_) pass.rows += slot->rows;
  pass.tokens = static_cast<double>(pass.rows);
  for (TextSlot* slot : slots_) {
    if (slot->in_phase(Phase::kPrompt)) {
      has_prompts_ = true;
    } else {
      Guess(*slot, cost, pass);
    }
  }
  for (TextSlot* slot : slots_) AddRows(*slot);
  first_ = (first_ + 1) % slots.size();
}

// How many rows each text has, guesses not counted.
void PassRows::CountRows(std::span<TextSlot> slots) {
  const size_t kept = std::min(most_rows_ / kPromptShare, PromptRows(slots));
  size_t room = most_rows_ - kept;
  for (const bool prompts : {false, true}) {
    if (prompts) room += kept;
    for (size_t i = 0; i < slots.size(); ++i) {
      TextSlot& slot = slots[(first_ + i) % slots.size()];
      slot.guesses.clear();
      if (slot.text == nullptr || slot.in_phase(Phase::kPrompt) != prompts) continue;
      slot.rows = std::min(room, slot.text->history.size() - slot.sequence->tokens().size());
      room -= slot.rows;
      slot.text->in_pass = slot.rows > 0;
      if (slot.rows > 0) slots_.push_back(&slot);
    }
  }
}

void PassRows::Guess(TextSlot& slot, const PassCost& cost, PassOutlook& pass) const {
  ScheduledText& text = *slot.text;
  if (!text.speculation) return;
  const size_t room = most_rows_ - pass.rows;
  const size_t tokens = text.request.max_tokens - text.result.tokens.size() - 1;
  const size_t positions = slot.sequence->room() - slot.rows;
  slot.guesses =
      text.speculation->Propose(text.history, std::min({room, tokens, positions}), cost, pass);
}

void PassRows::AddRows(TextSlot& slot) {
  const ScheduledText& text = *slot.text;
  Sequence* const sequence = &*slot.sequence;
  const size_t seen = sequence->tokens().size();
  const size_t first = rows_.size();
  for (size_t i = seen; i < seen + slot.rows; ++i) {
    const bool chooses = i + 1 == text.history.size() && text.WantsMore();
    rows_.push_back({.sequence = sequence,
                     .token = text.history[i],
                     .wants_logits = chooses || text.IsScored(i + 1)});
  }
  for (const TokenId guess : slot.guesses) {
    rows_.push_back(
        {.sequence = sequence, .token = guess, .wants_logits = true, .tentative = true});
  }
  slot.wanted_logits = CountWanted(std::span(rows_).subspan(first));
}

size_t PassRows::wanted_logits() const { return CountWanted(rows_); }

}  // namespace kimi_k3
