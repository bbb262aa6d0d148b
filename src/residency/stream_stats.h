// The byte ledger of a planned weight stream.
#pragma once

#include <cstdint>

namespace kimi_k3 {

// Counted since the stream was made; differences of two readings describe a phase. Bytes are those
// fetched, the padding to whole blocks included, whether or not compute came to use them.
struct StreamStats {
  uint64_t trunk_bytes = 0;
  uint64_t expert_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t embedding_bytes = 0;
  uint64_t read_calls = 0;
  // Requested experts that were in memory when the router named them, and those that were not.
  uint64_t expert_hits = 0;
  uint64_t expert_misses = 0;
  double compute_waited_seconds = 0;  // compute had nothing to do until a read came
  double reads_waited_seconds = 0;    // no read in flight: no room, or nothing known to be needed
  double reads_busy_seconds = 0;      // at least one read in flight
  double depth_seconds = 0;           // integral of reads in flight; / busy = mean depth

  uint64_t bytes() const { return trunk_bytes + expert_bytes + head_bytes + embedding_bytes; }
};

}  // namespace kimi_k3
