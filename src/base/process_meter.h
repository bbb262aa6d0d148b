// What the operating system says this process has used.
#pragma once

#include <cstdint>

namespace kimi_k3 {

// A reading of the counters; differences of two readings describe a phase.
struct ProcessReading {
  uint64_t resident_bytes = 0;       // now
  uint64_t peak_resident_bytes = 0;  // since the process started
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  uint64_t storage_read_bytes = 0;  // fetched from storage on behalf of this process
};

// Never throws: a counter that this system does not give reads as zero.
ProcessReading ReadProcessMeters();

}  // namespace kimi_k3
