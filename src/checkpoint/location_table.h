// Where every tensor of a model lies, in eight bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kimi_k3 {

// Indexed by slot (tensor_slots.h). The number of bytes is not kept: shape and dtype give it.
class LocationTable {
 public:
  static constexpr uint64_t kOffsetLimit = uint64_t{1} << 47;  // 140 TB in one file
  static constexpr size_t kShardLimit = 0xffff;

  explicit LocationTable(size_t slots) : packed_(slots, kEmpty) {}

  struct Location {
    uint32_t shard = 0;   // below kShardLimit
    uint64_t offset = 0;  // in the file; below kOffsetLimit
    bool is_f32 = false;  // of a tensor that may be bf16 or f32
  };

  void Set(size_t slot, Location location) {
    packed_[slot] =
        (uint64_t{location.shard} << 48) | (uint64_t{location.is_f32} << 47) | location.offset;
  }

  // Nothing until Set.
  std::optional<Location> Get(size_t slot) const {
    const uint64_t packed = packed_[slot];
    if (packed == kEmpty) return std::nullopt;
    return Location{static_cast<uint32_t>(packed >> 48), packed & (kOffsetLimit - 1),
                    ((packed >> 47) & 1) != 0};
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  std::vector<uint64_t> packed_;
};

}  // namespace kimi_k3
