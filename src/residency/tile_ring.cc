// Room for tiles on their way from the drive to compute.
#include "residency/tile_ring.h"

namespace kimi_k3 {

std::optional<uint64_t> TileRing::Take(uint64_t bytes) {
  uint64_t begin = 0;
  if (pieces_.empty()) {
    if (bytes > bytes_) return std::nullopt;
  } else {
    const uint64_t oldest = pieces_.front().begin;
    const uint64_t newest = pieces_.back().end;
    if (newest > oldest) {  // in use: [oldest, newest)
      if (bytes <= bytes_ - newest) {
        begin = newest;
      } else if (bytes > oldest) {
        return std::nullopt;
      }
    } else {  // wrapped; free: [newest, oldest)
      if (bytes > oldest - newest) return std::nullopt;
      begin = newest;
    }
  }
  pieces_.push_back({begin, begin + bytes});
  return begin;
}

}  // namespace kimi_k3
