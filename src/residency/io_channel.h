// The chosen way of reading, opened: files or maps, readers, and where their reads land.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "residency/drive_map.h"
#include "residency/guarded_map.h"
#include "residency/landing.h"
#include "residency/reader.h"
#include "residency/shard_files.h"
#include "residency/stream_options.h"

namespace kimi_k3 {

// Members are destroyed in reverse order: readers before what they read from.
struct IoChannel {
  std::deque<GuardedMap> maps;        // by shard; mmap alone
  std::unique_ptr<ShardFiles> files;  // the other ways
  std::unique_ptr<Landing> landing;
  DriveMap drives;
  std::vector<std::unique_ptr<Reader>> readers;  // as many for each drive, in turns
  std::string description;                       // "direct reads through io_uring, 16 in flight"

  // A range of any alignment, now; throws Error(kIo). Returns the bytes fetched.
  uint64_t ReadRange(const Checkpoint& checkpoint, const ByteRange& range,
                     std::span<std::byte> out) const;
  // Throws Error(kIo) naming a shard that was cut, extended or written to since it was opened.
  void CheckUnchanged() const;
};

// Opens every shard, tries the way with a real read, and says in `description` what it took and
// why. Throws Error(kIo) where the way that was asked for cannot be had; kAuto always finds one.
// tile_bytes: of the schedule, for the depth.
IoChannel OpenIoChannel(const Checkpoint& checkpoint, const IoOptions& options,
                        const LandingShape& shape, uint64_t tile_bytes);

}  // namespace kimi_k3
