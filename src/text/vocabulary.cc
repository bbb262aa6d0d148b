// The ordinary tokens: byte strings by rank, and ranks by byte string.
#include "text/vocabulary.h"

#include <algorithm>
#include <functional>

namespace kimi_k3::text {
namespace {

constexpr size_t kFirstSlots = 1024;

size_t HashOf(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

uint32_t TagOf(size_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

size_t Vocabulary::FindSlot(std::string_view bytes, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  const uint32_t tag = TagOf(hash);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kEmpty || (slot.tag == tag && Bytes(slot.id) == bytes)) return i;
  }
}

void Vocabulary::Grow() {
  slots_.assign(std::max(kFirstSlots, 2 * slots_.size()), Slot{});
  for (TokenId id = 0; id < size(); ++id) {
    const size_t hash = HashOf(Bytes(id));
    slots_[FindSlot(Bytes(id), hash)] = {TagOf(hash), id};
  }
}

bool Vocabulary::Append(std::string_view bytes) {
  if (2 * (static_cast<size_t>(size()) + 1) > slots_.size()) Grow();
  const size_t hash = HashOf(bytes);
  Slot& slot = slots_[FindSlot(bytes, hash)];
  if (slot.id != kEmpty) return false;
  slot = {TagOf(hash), size()};
  bytes_ += bytes;
  starts_.push_back(static_cast<uint32_t>(bytes_.size()));
  longest_ = std::max(longest_, bytes.size());
  return true;
}

std::optional<TokenId> Vocabulary::Find(std::string_view bytes) const {
  if (slots_.empty() || bytes.size() > longest_) return std::nullopt;
  const Slot& slot = slots_[FindSlot(bytes, HashOf(bytes))];
  if (slot.id == kEmpty) return std::nullopt;
  return slot.id;
}

}  // namespace kimi_k3::text
