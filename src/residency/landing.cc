// Where reads land: memory of our own, or the pages of a map.
#include "residency/landing.h"

#include <sys/mman.h>

#include <iterator>
#include <numeric>

#include "residency/page_buffer.h"
#include "residency/tile_ring.h"

namespace kimi_k3 {
namespace {

uint64_t BoundOf(const LandingShape& shape) {
  return std::accumulate(shape.pin_bytes.begin(), shape.pin_bytes.end(),
                         shape.ring_bytes + shape.slot_bytes * shape.slots);
}

class OwnedLanding : public Landing {
 public:
  explicit OwnedLanding(const LandingShape& shape)
      : shape_(shape),
        ring_(shape.ring_bytes),
        ring_memory_(shape.ring_bytes, PageBuffer::Pages::kHuge),
        slot_memory_(shape.slot_bytes * shape.slots, PageBuffer::Pages::kHuge),
        pin_memory_(std::accumulate(shape.pin_bytes.begin(), shape.pin_bytes.end(), uint64_t{0}),
                    PageBuffer::Pages::kHuge) {
    std::exclusive_scan(shape.pin_bytes.begin(), shape.pin_bytes.end(),
                        std::back_inserter(pin_offset_), uint64_t{0});
  }

  std::byte* PlaceTile(const ByteRange& blocks) override {
    const auto offset = ring_.Take(blocks.bytes);
    return offset ? ring_memory_.data() + *offset : nullptr;
  }
  void ReleaseOldestTile() override { ring_.ReleaseOldest(); }
  std::byte* PlaceInSlot(size_t slot, uint64_t slot_offset, const ByteRange& /*blocks*/) override {
    return slot_memory_.data() + slot * shape_.slot_bytes + slot_offset;
  }
  void ReleaseSlot(size_t /*slot*/) override {}
  std::byte* PlacePin(size_t pin, const ByteRange& /*blocks*/) override {
    return pin_memory_.data() + pin_offset_[pin];
  }
  void CheckIntact(uint32_t /*shard*/) const override {}
  uint64_t resident_bytes() const override { return BoundOf(shape_); }

 private:
  LandingShape shape_;
  TileRing ring_;
  PageBuffer ring_memory_;
  PageBuffer slot_memory_;
  PageBuffer pin_memory_;  // one for all, for huge pages: a fault for every 4 KB costs more than
                           // reading them
  std::vector<uint64_t> pin_offset_;
};

class MappedLanding : public Landing {
 public:
  MappedLanding(const LandingShape& shape, const std::deque<GuardedMap>& maps, bool drop_behind)
      : shape_(shape),
        ring_(shape.ring_bytes),
        maps_(&maps),
        drop_behind_(drop_behind),
        slots_(shape.slots) {}

  std::byte* PlaceTile(const ByteRange& blocks) override {
    if (!ring_.Take(blocks.bytes)) return nullptr;
    tiles_.push_back(blocks);
    return At(blocks);
  }
  void ReleaseOldestTile() override {
    ring_.ReleaseOldest();
    LetGo(tiles_.front());
    tiles_.pop_front();
  }
  std::byte* PlaceInSlot(size_t slot, uint64_t /*slot_offset*/, const ByteRange& blocks) override {
    slots_[slot].push_back(blocks);
    return At(blocks);
  }
  void ReleaseSlot(size_t slot) override {
    for (const ByteRange& blocks : slots_[slot]) LetGo(blocks);
    slots_[slot].clear();
  }
  std::byte* PlacePin(size_t /*pin*/, const ByteRange& blocks) override { return At(blocks); }
  void CheckIntact(uint32_t shard) const override { (*maps_)[shard].CheckIntact(); }
  uint64_t resident_bytes() const override { return BoundOf(shape_); }

 private:
  std::byte* At(const ByteRange& blocks) const {
    // Reads only make pages present, nothing is ever stored there.
    return const_cast<std::byte*>((*maps_)[blocks.shard].data()) + blocks.offset;
  }
  void LetGo(const ByteRange& blocks) {
    (*maps_)[blocks.shard].LetGo(blocks.offset, blocks.bytes);
    if (drop_behind_) Forget(blocks);
  }
  // Collects what the page cache is to forget and tells it rarely.
  void Forget(const ByteRange& blocks) {
    constexpr uint64_t kForgottenAtOnceBytes = uint64_t{64} << 20;
    ByteRange* last = behind_.empty() ? nullptr : &behind_.back();
    if (last != nullptr && last->shard == blocks.shard &&
        last->offset + last->bytes == blocks.offset) {
      last->bytes += blocks.bytes;
    } else {
      behind_.push_back(blocks);
    }
    behind_bytes_ += blocks.bytes;
    if (behind_bytes_ < kForgottenAtOnceBytes) return;
    for (const ByteRange& range : behind_) {
      (*maps_)[range.shard].Forget(range.offset, range.bytes);
    }
    behind_.clear();
    behind_bytes_ = 0;
  }

  LandingShape shape_;
  TileRing ring_;
  const std::deque<GuardedMap>* maps_;
  bool drop_behind_;
  std::deque<ByteRange> tiles_;
  std::vector<std::vector<ByteRange>> slots_;
  std::vector<ByteRange> behind_;  // let go, not yet forgotten
  uint64_t behind_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Landing> MakeOwnedLanding(const LandingShape& shape) {
  return std::make_unique<OwnedLanding>(shape);
}

std::unique_ptr<Landing> MakeMappedLanding(const LandingShape& shape,
                                           const std::deque<GuardedMap>& maps, bool drop_behind) {
  return std::make_unique<MappedLanding>(shape, maps, drop_behind);
}

}  // namespace kimi_k3
