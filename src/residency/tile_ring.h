// Room for tiles on their way from the drive to compute: taken and given back in the same order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace kimi_k3 {

// Offsets into a stretch of bytes. A piece is always contiguous and lies as near to the beginning
// as it can, so that a large ring with little in it touches little memory, which a cache can hold.
// Deals in numbers alone, so that it can stand for memory or merely count.
class TileRing {
 public:
  explicit TileRing(uint64_t bytes);

  // Offset of a new piece of `bytes` > 0, or nothing while there is no room for it.
  std::optional<uint64_t> Take(uint64_t bytes);
  // Gives back the oldest piece. REQUIRES: there is one.
  void ReleaseOldest();

  uint64_t bytes() const { return bytes_; }
  bool empty() const { return order_.empty(); }

 private:
  struct Piece {
    uint64_t begin;
    uint64_t end;
  };

  uint64_t bytes_;
  std::map<uint64_t, uint64_t> gaps_;  // end by begin, no two adjoining: few, however many pieces
  std::deque<Piece> order_;            // oldest first
};

}  // namespace kimi_k3
