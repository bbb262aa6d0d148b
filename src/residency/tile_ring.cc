// Room for tiles on their way from the drive to compute.
#include "residency/tile_ring.h"

namespace kimi_k3 {

std::optional<uint64_t> TileRing::Take(uint64_t bytes) {
  uint64_t begin = 0;
  for (const auto& [piece_begin, piece_end] : pieces_) {
    if (piece_begin - begin >= bytes) break;
    begin = piece_end;
  }
  if (bytes > bytes_ - begin) return std::nullopt;
  pieces_.emplace(begin, begin + bytes);
  order_.push_back(begin);
  return begin;
}

void TileRing::ReleaseOldest() {
  pieces_.erase(order_.front());
  order_.pop_front();
}

}  // namespace kimi_k3
