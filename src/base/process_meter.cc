// What the operating system says this process has used.
#include "base/process_meter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace kimi_k3 {

ProcessReading ReadProcessMeters() {
  ProcessReading reading;
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  if (statm >> total_pages >> resident_pages) {
    reading.resident_bytes = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  struct rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    reading.minor_faults = static_cast<uint64_t>(usage.ru_minflt);
    reading.major_faults = static_cast<uint64_t>(usage.ru_majflt);
  }
  std::string key;
  uint64_t value = 0;
  // Not ru_maxrss: that one is inherited from the program that started this one.
  std::ifstream status("/proc/self/status");
  while (status >> key) {
    if (key == "VmHWM:" && status >> value) reading.peak_resident_bytes = value * 1024;
  }
  std::ifstream io("/proc/self/io");
  while (io >> key >> value) {
    if (key == "read_bytes:") reading.storage_read_bytes = value;
  }
  return reading;
}

}  // namespace kimi_k3
