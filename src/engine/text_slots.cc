// Room for the texts that run at once, and the states that ended texts leave in it.
#include "engine/text_slots.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kimi_k3 {
namespace {

bool IsProperPrefix(std::span<const TokenId> prefix, std::span<const TokenId> text) {
  return prefix.size() < text.size() && std::equal(prefix.begin(), prefix.end(), text.begin());
}

}  // namespace

TextSlots::TextSlots(Engine& engine, size_t count, const std::filesystem::path& cache_dir,
                     uint64_t most_cache_bytes, StateCache::Tell tell)
    : engine_(engine) {
  if (count == 0) Fail(ErrorKind::kUsage, "a scheduler needs room for one text");
  if (!cache_dir.empty()) {
    cache_.emplace(cache_dir, most_cache_bytes, engine.approximations(), std::move(tell));
  }
  slots_.resize(count);
}

size_t TextSlots::running() const {
  return static_cast<size_t>(
      std::ranges::count_if(slots_, [](const TextSlot& slot) { return slot.text != nullptr; }));
}

size_t TextSlots::held() const {
  return static_cast<size_t>(std::ranges::count_if(slots_, [](const TextSlot& slot) {
    return slot.text == nullptr && slot.sequence && !slot.sequence->tokens().empty();
  }));
}

TextSlot* TextSlots::Choose(std::span<const TokenId> prompt) {
  TextSlot* best = nullptr;
  size_t most = 0;
  TextSlot* unused = nullptr;
  TextSlot* oldest = nullptr;
  for (TextSlot& slot : slots_) {
    if (slot.text != nullptr) continue;
    const std::span<const TokenId> held =
        slot.sequence ? slot.sequence->tokens() : std::span<const TokenId>{};
    if (held.empty()) {
      // A sequence that exists costs no new memory.
      if (unused == nullptr || (!unused->sequence && slot.sequence)) unused = &slot;
      continue;
    }
    if (held.size() > most && IsProperPrefix(held, prompt)) {
      most = held.size();
      best = &slot;
    }
    if (oldest == nullptr || slot.last_used < oldest->last_used) oldest = &slot;
  }
  if (best != nullptr) return best;
  return unused != nullptr ? unused : oldest;
}

void TextSlots::Prepare(TextSlot& slot) {
  ScheduledText& text = *slot.text;
  const std::span<const TokenId> prompt = text.reusable();
  if (!slot.sequence) slot.sequence.emplace(engine_.NewSequence());
  Sequence& sequence = *slot.sequence;
  if (!sequence.intact()) sequence.Reset();
  const bool continues = IsProperPrefix(sequence.tokens(), prompt);
  const size_t on_disk = cache_ ? cache_->TokensFor(prompt) : 0;
  // Also where it is gone on with: the last question may be put again, or in other words.
  Keep(sequence);
  if (!continues) sequence.Reset();
  if (on_disk > sequence.tokens().size()) cache_->Load(engine_, sequence, prompt);
  text.result.cached_tokens = sequence.tokens().size();
}

std::shared_ptr<ScheduledText> TextSlots::Free(TextSlot& slot) {
  slot.rows = 0;
  slot.guesses.clear();
  slot.right_guesses = 0;
  slot.last_used = ++uses_;
  if (slot.sequence && !slot.sequence->intact()) slot.sequence->Reset();
  return std::exchange(slot.text, nullptr);
}

void TextSlots::KeepAll() {
  for (const TextSlot& slot : slots_) {
    if (slot.sequence) Keep(*slot.sequence);
  }
}

void TextSlots::Keep(const Sequence& sequence) {
  if (cache_ && sequence.intact() && !sequence.tokens().empty()) cache_->Save(engine_, sequence);
}

}  // namespace kimi_k3
