// The weight stream under a budget: a ring, expert slots and pins, filled by reads that run ahead.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "residency/stream_options.h"
#include "residency/stream_stats.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// A WeightStream whose memory was planned and whose reads are counted. Reads run ahead in the order
// of the walk, from layer to layer and around the corner into the next pass (never into a head of
// which it is not yet known whether it comes), as far as the ring has room; experts go first the
// moment they are requested. Pinned matrices are read once, during the first pass. Besides the
// errors of WeightStream, waiting calls throw Error(kInterrupted) soon after the stop flag is set.
// After any error BeginPass starts afresh.
class PlannedStream : public WeightStream {
 public:
  // From any thread, at any time.
  virtual StreamStats ReadStats() const = 0;
  // In words for the user: "direct reads through io_uring by 2 threads, 16 in flight".
  virtual const std::string& io_description() const = 0;
};

// `checkpoint` must outlive the stream. Starts reading at once. Throws Error(kIo) where the shards
// cannot be opened in the way asked for, Error(kBudget) where the system refuses the memory.
std::unique_ptr<PlannedStream> MakePlannedStream(const Checkpoint& checkpoint,
                                                 const StreamShape& shape,
                                                 const IoOptions& options);

// The most memory a stream of this shape keeps resident.
uint64_t StreamResidentBytes(const Checkpoint& checkpoint, const PassSchedule& schedule,
                             const StreamShape& shape);

// Room one expert takes in a slot.
uint64_t ExpertSlotBytes(const PassSchedule& schedule);

// Room one pinned step takes.
uint64_t PinBytes(const PassStep& step);

}  // namespace kimi_k3
