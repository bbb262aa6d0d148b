// How much memory this process may really use, by the system's and the control groups' account.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kimi_k3 {

struct MemoryLimit {
  // What the process could have in all, what it has already included, before anyone is squeezed:
  // pages of the page cache count as free, since the system takes them back.
  uint64_t available_bytes = 0;
  std::string source;  // "MemAvailable", or the control group's folder that is tighter
};

// The tightest of MemAvailable and, at every level above the process, the control groups' limits
// (version 2: memory.max and memory.high; version 1: memory.limit_in_bytes) less what is used there
// and cannot be taken back. Files that are not there or hold no number mean no limit,
// but for the real /proc: without it what the system calls free is the limit.
// resident_bytes: what this process has now. root: where /proc and /sys are (tests put theirs).
MemoryLimit ReadMemoryLimit(uint64_t resident_bytes, const std::filesystem::path& root = "/");

// What is left of it after a margin for everyone else: the default budget.
uint64_t DefaultBudget(const MemoryLimit& limit);

}  // namespace kimi_k3
