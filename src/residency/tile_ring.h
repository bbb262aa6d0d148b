// Room for tiles on their way from the drive to compute: taken and given back in the same order.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace kimi_k3 {

// Offsets into a ring of bytes. A piece is always contiguous. Deals in numbers alone, so that it
// can stand for memory or merely count.
class TileRing {
 public:
  explicit TileRing(uint64_t bytes) : bytes_(bytes) {}

  // Offset of a new piece of `bytes` > 0, or nothing while there is no room for it.
  std::optional<uint64_t> Take(uint64_t bytes);
  // Gives back the oldest piece. REQUIRES: there is one.
  void ReleaseOldest() { pieces_.pop_front(); }

  uint64_t bytes() const { return bytes_; }
  bool empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    uint64_t begin;
    uint64_t end;
  };
  uint64_t bytes_;
  std::deque<Piece> pieces_;
};

}  // namespace kimi_k3
