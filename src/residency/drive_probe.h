// How fast the shards can be read, by reading them for a moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "residency/stream_options.h"

namespace kimi_k3 {

struct DriveSpeed {
  // Of the shards as a whole: where all drives read at once and the last to end with its shards
  // decides, and where they take turns. The same for one drive.
  double bytes_per_second = 0;
  double in_turns_bytes_per_second = 0;
  uint64_t bytes = 0;  // that were read to find out
  double seconds = 0;
  std::string description;  // the way of reading, as IoChannel says it
};

// Reads pieces of `piece_bytes` at random places of all shards, of all drives at once, at the depth
// and in the way that a stream would, until `limit` has passed; through the page cache it forgets
// them, so that a second probe finds what the first did. Throws Error(kIo) as a stream would.
DriveSpeed MeasureDrive(const Checkpoint& checkpoint, const IoOptions& options,
                        uint64_t piece_bytes, std::chrono::milliseconds limit);

}  // namespace kimi_k3
