// The runs of blocks that bring one expert into memory.
#include "residency/expert_runs.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace kimi_k3 {

ExpertRuns::ExpertRuns(const ExpertLocation& location) {
  std::vector<ByteRange> ranges;
  for (const ExpertMatrixLocation* m : {&location.gate, &location.up, &location.down}) {
    for (const ByteRange& range : {m->weights, m->scales}) {
      if (range.bytes > 0) ranges.push_back(range);
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.offset < b.offset;
  });
  for (const ByteRange& range : ranges) {
    const ByteRange blocks = BlocksOf(range);
    const uint64_t end = range.offset + range.bytes;
    ExpertRun* last = count_ > 0 ? &runs_[count_ - 1] : nullptr;
    if (last != nullptr && last->blocks.shard == blocks.shard &&
        blocks.offset <= last->blocks.offset + last->blocks.bytes) {
      last->needed_end = std::max(last->needed_end, end);
      last->blocks.bytes = BlockCeil(last->needed_end) - last->blocks.offset;
    } else {
      runs_[count_++] = {blocks, end, 0};
    }
  }
  for (ExpertRun& run : std::span(runs_).first(count_)) {
    run.slot_offset = slot_bytes_;
    slot_bytes_ += run.blocks.bytes;
  }
}

uint64_t ExpertRuns::OffsetOf(const ByteRange& range) const {
  for (const ExpertRun& run : runs()) {
    if (run.blocks.shard == range.shard && run.blocks.offset <= range.offset &&
        range.offset + range.bytes <= run.needed_end) {
      return run.slot_offset + (range.offset - run.blocks.offset);
    }
  }
  throw std::logic_error("expert runs: a range that is not the expert's");
}

}  // namespace kimi_k3
