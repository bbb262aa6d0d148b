// Which expert is in which slot, and which gives way.
#include "residency/expert_cache.h"

#include <algorithm>

namespace kimi_k3 {

ExpertCache::ExpertCache(const ExpertCacheShape& shape)
    : passing_(shape.passing_slots), share_begin_(shape.moe_layers), share_end_(shape.moe_layers) {
  const size_t layers = shape.moe_layers;
  const size_t most = layers * shape.experts;
  const size_t cached = std::min(shape.cached_slots, most);
  const size_t least = std::max<size_t>(1, std::min(shape.experts_per_token, shape.experts));
  // The number of layers that get a share: all of them once each can have `least`.
  const size_t sharing = layers == 0 ? 0 : std::min(layers, cached / least);
  size_t next = passing_;
  size_t shares = 0;
  for (size_t layer = 0; layer < layers; ++layer) {
    share_begin_[layer] = next;
    if ((layer + 1) * sharing / layers != layer * sharing / layers) {
      next += cached * (shares + 1) / sharing - cached * shares / sharing;
      ++shares;
    }
    share_end_[layer] = next;
  }
  slots_.resize(next);
}

std::optional<size_t> ExpertCache::FindIn(size_t begin, size_t end, size_t moe_layer,
                                          size_t expert) const {
  for (size_t i = begin; i < end; ++i) {
    const Slot& slot = slots_[i];
    if (slot.full && slot.expert == expert && slot.moe_layer == moe_layer) return i;
  }
  return std::nullopt;
}

std::optional<size_t> ExpertCache::Find(size_t moe_layer, size_t expert) const {
  const auto shared = FindIn(share_begin_[moe_layer], share_end_[moe_layer], moe_layer, expert);
  return shared ? shared : FindIn(0, passing_, moe_layer, expert);
}

std::optional<size_t> ExpertCache::Take(size_t moe_layer, size_t expert) {
  std::optional<size_t> best;
  for (size_t i = share_begin_[moe_layer]; i < share_end_[moe_layer]; ++i) {
    if (slots_[i].claimed) continue;
    if (!best || slots_[i].released < slots_[*best].released) best = i;
  }
  if (!best) {
    for (size_t i = 0; i < passing_; ++i) {
      if (slots_[i].claimed) continue;
      if (!best || slots_[i].released > slots_[*best].released) best = i;
    }
  }
  if (best) slots_[*best] = {moe_layer, expert, true, true, slots_[*best].released};
  return best;
}

void ExpertCache::Claim(size_t slot) { slots_[slot].claimed = true; }

void ExpertCache::Release(size_t slot) {
  slots_[slot].claimed = false;
  slots_[slot].released = ++now_;
}

void ExpertCache::Empty(size_t slot) {
  const uint64_t released = slots_[slot].released;
  slots_[slot] = {};
  slots_[slot].released = released;
}

}  // namespace kimi_k3
