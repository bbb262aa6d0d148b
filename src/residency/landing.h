// Where reads land: memory of our own, or the pages of a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "residency/guarded_map.h"

namespace kimi_k3 {

// What a landing holds at most.
struct LandingShape {
  uint64_t ring_bytes = 0;
  uint64_t slot_bytes = 0;  // room for one expert
  size_t slots = 0;
  std::vector<uint64_t> pin_bytes;  // of each pin, whole blocks
};

// Hands out places for whole blocks. Placing says where bytes will be; it reads nothing. Not
// thread-safe, but places may be read and written by any thread.
class Landing {
 public:
  virtual ~Landing() = default;
  // The next place in the ring, null while there is no room; released in the order of placing.
  virtual std::byte* PlaceTile(const ByteRange& blocks) = 0;
  virtual void ReleaseOldestTile() = 0;
  // Part of the expert that is to be in `slot`.
  virtual std::byte* PlaceInSlot(size_t slot, uint64_t slot_offset, const ByteRange& blocks) = 0;
  // The slot's content gives way to another.
  virtual void ReleaseSlot(size_t slot) = 0;
  // Pin `pin`, [0, its bytes).
  virtual std::byte* PlacePin(size_t pin, const ByteRange& blocks) = 0;
  // Throws Error(kIo) where bytes of this shard that were in use cannot be trusted.
  virtual void CheckIntact(uint32_t shard) const = 0;
  // Upper bound of what it keeps resident.
  virtual uint64_t resident_bytes() const = 0;
};

// Ring, slots and pins in memory of our own, all asked for now, resident when first filled.
std::unique_ptr<Landing> MakeOwnedLanding(const LandingShape& shape);

// Places are those of the maps; ring and slots merely count, and release lets the pages go.
// drop_behind: the page cache is told to forget them too. `maps`, by shard, must outlive it.
std::unique_ptr<Landing> MakeMappedLanding(const LandingShape& shape,
                                           const std::deque<GuardedMap>& maps, bool drop_behind);

}  // namespace kimi_k3
