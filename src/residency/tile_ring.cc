// Room for tiles on their way from the drive to compute.
#include "residency/tile_ring.h"

#include <iterator>

namespace kimi_k3 {

TileRing::TileRing(uint64_t bytes) : bytes_(bytes) {
  if (bytes > 0) gaps_.emplace(0, bytes);
}

std::optional<uint64_t> TileRing::Take(uint64_t bytes) {
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    const auto [begin, end] = *gap;
    if (end - begin < bytes) continue;
    gaps_.erase(gap);
    if (end - begin > bytes) gaps_.emplace(begin + bytes, end);
    order_.push_back({begin, begin + bytes});
    return begin;
  }
  return std::nullopt;
}

void TileRing::ReleaseOldest() {
  auto [begin, end] = order_.front();
  order_.pop_front();
  auto after = gaps_.lower_bound(end);
  if (after != gaps_.end() && after->first == end) {
    end = after->second;
    after = gaps_.erase(after);
  }
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->second == begin) {
      before->second = end;
      return;
    }
  }
  gaps_.emplace(begin, end);
}

}  // namespace kimi_k3
