// What a planned weight stream is told: how much memory it has, how it reads, when to stop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "residency/drive_map.h"
#include "residency/pass_schedule.h"
#include "residency/reader.h"
#include "residency/shard_files.h"

namespace kimi_k3 {

// The memory of a stream; part of a MemoryPlan.
struct StreamShape {
  uint64_t tile_bytes = PassSchedule::kDefaultTileBytes;
  uint64_t ring_bytes = 0;   // holds at least the largest tile of the schedule and two blocks
  size_t passing_slots = 1;  // whole experts on their way through
  size_t cached_slots = 0;   // whole experts that stay
  std::vector<bool> pinned;  // by step of the schedule; missing ones are streamed
};

// How shards are read (docs/streaming.md).
enum class IoMode : uint8_t { kAuto, kDirect, kBuffered, kMmap };

// "auto", "direct", "buffered", "mmap"; throws Error(kUsage) for another word.
IoMode ParseIoMode(std::string_view text);

// Seams for tests: the system call beneath pread, each reader's wrapper, io_uring refused as a
// container would, and the drive that a file lies on.
struct IoHooks {
  PreadFunction pread = SystemPread;
  std::function<std::unique_ptr<Reader>(std::unique_ptr<Reader>)> wrap_reader;
  bool refuse_io_uring = false;
  DeviceFunction device_of = DeviceOf;
};

struct IoOptions {
  IoMode mode = IoMode::kAuto;
  // Read-ahead reaches this many layers beyond the one in use; unset: as far as the ring has room.
  std::optional<size_t> prefetch_layers;
  // Reads in flight for each drive; 0: as many as suit the ring and the way of reading.
  size_t depth = 0;
  // Reads through the page cache are forgotten by it: for a model that it cannot hold anyway.
  bool drop_behind = false;
  // Set by whoever wants the run to end; looked at ten times a second and between tiles.
  const std::atomic<bool>* stop = nullptr;
  IoHooks hooks;
};

}  // namespace kimi_k3
