// Room for the texts that run at once, and the states that ended texts leave in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduled_text.h"
#include "engine/state_cache.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Room for one text. Of the scheduler's thread, but `text` changes under its mutex.
struct TextSlot {
  std::optional<Sequence> sequence;
  std::shared_ptr<ScheduledText> text;
  uint64_t last_used = 0;
  size_t rows = 0;                    // in the pass in progress, guesses not counted
  std::vector<TokenId> guesses = {};  // that stand behind them
  size_t right_guesses = 0;           // found so far after the pass
  size_t wanted_logits = 0;           // rows of both that want them

  bool in_phase(TextProgress::Phase phase) const { return text != nullptr && text->phase == phase; }
};

// Of the scheduler's thread; functions that are const may be called by others with its mutex.
class TextSlots {
 public:
  // cache_dir, tell: as SchedulerOptions has them. engine must outlive the object. Throws
  // Error(kIo).
  TextSlots(Engine& engine, size_t count, const std::filesystem::path& cache_dir,
            uint64_t most_cache_bytes, StateCache::Tell tell);

  std::span<TextSlot> all() { return slots_; }
  std::span<const TextSlot> all() const { return slots_; }
  size_t running() const;  // texts
  size_t held() const;     // states of ended texts

  // The free slot whose text the prompt continues furthest, else an unused one, else the least
  // recently used; null where none is free.
  TextSlot* Choose(std::span<const TokenId> prompt);

  // Brings the slot's sequence to the longest beginning of its text's prompt that is known.
  void Prepare(TextSlot& slot);

  // Frees the slot, whose sequence stays for a text that continues it; returns its text.
  std::shared_ptr<ScheduledText> Free(TextSlot& slot);

  // All states are about to leave memory.
  void KeepAll();

 private:
  void Keep(const Sequence& sequence);

  Engine& engine_;
  std::optional<StateCache> cache_;
  std::vector<TextSlot> slots_;
  uint64_t uses_ = 0;
};

}  // namespace kimi_k3
