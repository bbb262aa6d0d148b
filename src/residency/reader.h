// The narrow interface of everything that fetches blocks of shards, and what one read went through.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace kimi_k3 {

// What offsets, lengths and addresses of reads are multiples of: a multiple of the logical block
// of every usual drive and file system.
inline constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t BlockFloor(uint64_t bytes) { return bytes / kBlockBytes * kBlockBytes; }
constexpr uint64_t BlockCeil(uint64_t bytes) { return BlockFloor(bytes + kBlockBytes - 1); }

// The whole blocks that hold `range`.
constexpr ByteRange BlocksOf(const ByteRange& range) {
  const uint64_t begin = BlockFloor(range.offset);
  return {range.shard, begin, BlockCeil(range.offset + range.bytes) - begin};
}

// One read of whole blocks. The last block of a file may be short: `needed_bytes` must arrive, the
// rest is there for alignment alone.
struct ReadRequest {
  void* tag = nullptr;  // handed back with the completion
  uint32_t shard = 0;
  uint64_t offset = 0;               // multiple of kBlockBytes
  std::byte* destination = nullptr;  // aligned to kBlockBytes, room for `bytes`
  uint64_t bytes = 0;                // multiple of kBlockBytes
  uint64_t needed_bytes = 0;         // <= bytes
};

// Why a read did not bring what was needed.
struct ReadFailure {
  uint32_t shard = 0;
  uint64_t offset = 0;   // of the first byte that did not come
  int error_number = 0;  // errno; 0: the file ended first
};

struct ReadCompletion {
  void* tag = nullptr;
  uint64_t bytes = 0;  // that arrived, padding included
  std::optional<ReadFailure> failure;
};

// Fetches blocks into memory. One thread submits and collects; Wake may come from any. A failed
// read is retried where that is right (EINTR, EAGAIN, a short read), else completes with a failure;
// its destination then holds nothing of use. Destroyed only with no read in flight.
class Reader {
 public:
  virtual ~Reader() = default;
  // Reads that may be in flight at once, >= 1.
  virtual size_t depth() const = 0;
  // Starts a read. REQUIRES: fewer than depth() in flight.
  virtual void Submit(const ReadRequest& request) = 0;
  // Appends what has completed. block: waits until there is something, or Wake was called.
  virtual void Collect(bool block, std::vector<ReadCompletion>& done) = 0;
  // Makes a Collect that blocks, now or next, return.
  virtual void Wake() = 0;
};

// How far a request has come, and what its results so far mean.
class ReadProgress {
 public:
  enum class Next : uint8_t { kDone, kAgain, kFailed };

  ReadProgress() = default;
  // direct: what remains after a short read starts at a block again.
  ReadProgress(const ReadRequest& request, bool direct) : request_(request), direct_(direct) {}

  // Takes the result of reading what remained: bytes, or a negative errno.
  Next Take(ssize_t result);

  // What remains to be read.
  uint64_t offset() const { return request_.offset + done_; }
  std::byte* destination() const { return request_.destination + done_; }
  uint64_t bytes() const { return request_.bytes - done_; }

  const ReadRequest& request() const { return request_; }
  // After kDone or kFailed.
  ReadCompletion completion() const;

 private:
  ReadRequest request_;
  bool direct_ = false;
  uint64_t done_ = 0;
  uint64_t arrived_ = 0;
  int fruitless_ = 0;  // results in a row that brought nothing
  int error_number_ = 0;
  bool failed_ = false;
};

// "PATH: cannot read at offset N: REASON", with what the user may do.
std::string DescribeFailure(const ReadFailure& failure, const Checkpoint& checkpoint);

}  // namespace kimi_k3
