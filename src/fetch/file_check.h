// Reads one file from end to end: its hash, its block sums, and numbers that no weight may be.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/block_sums.h"
#include "fetch/digest.h"

namespace kimi_k3 {

// A tensor's place in a shard, and what its numbers are checked for.
struct TensorSpan {
  std::string name;
  uint64_t begin = 0;  // in the file
  uint64_t end = 0;
  enum class Check : uint8_t { kNone, kBf16, kF32, kScales } check = Check::kNone;
};

// The tensors of a shard in the order of their places; the header comes first under the name
// "the header". Throws as VisitShardTensors does.
std::vector<TensorSpan> TensorSpans(const std::filesystem::path& shard);

struct FileCheckRequest {
  std::filesystem::path path;
  std::vector<TensorSpan> tensors;      // empty for files that are no shards
  std::vector<DigestKind> digests;      // which to compute
  bool sums = false;                    // compute block sums
  const BlockSums* expected = nullptr;  // compare with these, blocks that are not there left out
};

struct FileCheckResult {
  uint64_t bytes = 0;
  std::vector<std::string> digests;  // as requested
  std::optional<BlockSums> sums;
  // The first number that no weight may be: "tensor NAME: element 7 is NaN (offset 1234)".
  std::optional<std::string> first_bad_number;
  std::vector<size_t> bad_blocks;  // of `expected`
};

// Reads the file a few megabytes at a time, past the page cache's interest. Adds what it has read
// to `bytes_read` as it goes. Throws Error(kIo) where reading fails and Error(kInterrupted) once
// *stop is set.
FileCheckResult CheckFile(const FileCheckRequest& request, std::atomic<uint64_t>& bytes_read,
                          const std::atomic<bool>& stop);

// The names of the tensors that share a byte with [begin, end), in words: "tensor A", "tensors A to
// B (7)", "the header".
std::string TensorsIn(const std::vector<TensorSpan>& tensors, uint64_t begin, uint64_t end);

}  // namespace kimi_k3
