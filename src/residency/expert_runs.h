// The runs of blocks that bring one expert into memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/checkpoint.h"
#include "residency/reader.h"

namespace kimi_k3 {

// A run of whole blocks of one shard, and where it comes to lie in the expert's slot.
struct ExpertRun {
  ByteRange blocks;
  uint64_t needed_end = 0;  // end of the last byte that is wanted, in the shard
  uint64_t slot_offset = 0;
};

// Six ranges (packed weights and scales of three matrices), those that share or adjoin blocks
// fetched as one: one run where the expert's tensors are contiguous, as in the release.
class ExpertRuns {
 public:
  explicit ExpertRuns(const ExpertLocation& location);

  std::span<const ExpertRun> runs() const { return {runs_.data(), count_}; }
  // Room that all runs take in a slot, a multiple of kBlockBytes.
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Offset in the slot of a range of the location this was made from.
  uint64_t OffsetOf(const ByteRange& range) const;
  // The most slot_bytes() can be for an expert of this stored size, wherever its tensors lie.
  static constexpr uint64_t MostSlotBytes(uint64_t expert_bytes) {
    return BlockCeil(expert_bytes) + kRanges * 2 * kBlockBytes;
  }

 private:
  static constexpr size_t kRanges = 6;
  std::array<ExpertRun, kRanges> runs_;
  size_t count_ = 0;
  uint64_t slot_bytes_ = 0;
};

}  // namespace kimi_k3
