// Which expert is in which slot, and which gives way: bookkeeping alone, no memory and no reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kimi_k3 {

// How the slots of a model are laid out.
struct ExpertCacheShape {
  size_t moe_layers = 0;
  size_t experts = 0;            // in each layer
  size_t experts_per_token = 0;  // of each layer
  size_t passing_slots = 0;      // for experts on their way through; >= 1
  size_t cached_slots = 0;       // for experts that stay
};

// Slots are numbered: passing ones first, then the shares. A layer that has a share keeps there
// what it used last; its experts only ever drive out experts of the same layer, because a pass
// visits the layers in turn and a common least-recently-used order would drive out everything just
// before its next use. With few slots some layers, evenly spread, have a share of
// experts_per_token and the others none; with more every layer has an equal share
// (docs/streaming.md gives the measurements). Not thread-safe.
class ExpertCache {
 public:
  explicit ExpertCache(const ExpertCacheShape& shape);

  size_t slots() const { return slots_.size(); }
  // The slot that holds or awaits the expert. moe_layer counts MoE layers alone.
  std::optional<size_t> Find(size_t moe_layer, size_t expert) const;
  // Takes a slot for the expert and claims it: an empty or the longest unclaimed one of its
  // layer's share, else of the passing ones (there the one released last, which is still in the
  // processor's cache). What was there is forgotten. Nothing while all are claimed.
  std::optional<size_t> Take(size_t moe_layer, size_t expert);
  // A claimed slot is not given away. Claiming twice is claiming once.
  void Claim(size_t slot);
  void Release(size_t slot);
  // Forgets what the slot holds and releases it.
  void Empty(size_t slot);
  bool claimed(size_t slot) const { return slots_[slot].claimed; }
  // The slots that one layer may use beyond the passing ones.
  size_t share(size_t moe_layer) const { return share_end_[moe_layer] - share_begin_[moe_layer]; }

 private:
  struct Slot {
    size_t moe_layer = 0;
    size_t expert = 0;
    bool full = false;
    bool claimed = false;
    uint64_t released = 0;  // time of the last Release
  };
  std::optional<size_t> FindIn(size_t begin, size_t end, size_t moe_layer, size_t expert) const;

  std::vector<Slot> slots_;
  size_t passing_;
  std::vector<size_t> share_begin_, share_end_;  // by moe_layer
  uint64_t now_ = 0;
};

}  // namespace kimi_k3
