// The chosen way of reading, opened: files or maps, readers, and where their reads land.
#include "residency/io_channel.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "residency/blocking_reader.h"
#include "residency/uring_reader.h"

namespace kimi_k3 {
namespace {

// Enough for the fastest drives at tiles of a megabyte; more only delays experts.
constexpr size_t kMostDepth = 16;
// Threads that read with pread or populate a map.
constexpr size_t kReaderThreads = 8;
// As many reads of one drive as the ring can take while one tile is being used.
size_t ChooseDepth(const IoOptions& options, const LandingShape& shape, uint64_t tile_bytes) {
  if (options.depth != 0) return options.depth;
  const uint64_t fit = shape.ring_bytes / std::max<uint64_t>(1, tile_bytes);
  return std::clamp<size_t>(fit, 2, kMostDepth);
}

void OpenMaps(const Checkpoint& checkpoint, const IoOptions& options, const LandingShape& shape,
              size_t threads, IoChannel& channel) {
  for (const Shard& shard : checkpoint.shards()) channel.maps.emplace_back(shard.path, shard.bytes);
  channel.landing = MakeMappedLanding(shape, channel.maps, options.drop_behind);
  for (size_t i = 0; i < threads; ++i) {
    channel.readers.push_back(MakePopulateReader(channel.maps));
  }
  channel.description = fmt::format("mapped shards, populated ahead by {} threads", threads);
}

void OpenThreads(const ShardFiles& files, size_t threads, const std::string& reason,
                 IoChannel& channel) {
  for (size_t i = 0; i < threads; ++i) channel.readers.push_back(MakePreadReader(files));
  channel.description = fmt::format("{} reads by {} threads{}",
                                    files.all_direct()   ? "direct"
                                    : files.any_direct() ? "direct and buffered"
                                                         : "buffered",
                                    threads, reason);
}

void OpenFiles(const Checkpoint& checkpoint, const IoOptions& options, const LandingShape& shape,
               size_t depth, size_t threads, IoChannel& channel) {
  const CacheUse use = options.mode == IoMode::kDirect ? CacheUse::kBypass
                       : options.mode == IoMode::kAuto ? CacheUse::kPrefer
                       : options.drop_behind           ? CacheUse::kDropBehind
                                                       : CacheUse::kUse;
  channel.files = std::make_unique<ShardFiles>(checkpoint, use, options.hooks.pread);
  channel.landing = MakeOwnedLanding(shape);
  const ShardFiles& files = *channel.files;
  if (options.mode == IoMode::kBuffered) return OpenThreads(files, threads, "", channel);
  if (!files.any_direct()) {
    return OpenThreads(files, threads, " (no direct reads on this file system)", channel);
  }
  std::string refusal = "refused by request";
  // One thread submits for a drive: it keeps it busy, and a second one takes a core from compute
  // where the submitting call does the work (holes, cached pages).
  const size_t drives = channel.drives.drives();
  for (size_t drive = 0; drive < drives; ++drive) {
    auto uring = options.hooks.refuse_io_uring ? nullptr : MakeUringReader(files, depth, &refusal);
    if (uring == nullptr) {
      channel.readers.clear();
      return OpenThreads(files, threads, fmt::format(" (io_uring refused: {})", refusal), channel);
    }
    channel.readers.push_back(std::move(uring));
  }
  channel.description =
      fmt::format("{} reads through io_uring, {} in flight",
                  files.all_direct() ? "direct" : "direct and buffered", depth * drives);
}

}  // namespace

IoMode ParseIoMode(std::string_view text) {
  if (text == "auto") return IoMode::kAuto;
  if (text == "direct") return IoMode::kDirect;
  if (text == "buffered") return IoMode::kBuffered;
  if (text == "mmap") return IoMode::kMmap;
  Fail(ErrorKind::kUsage, "--io: '{}' is none of auto, direct, buffered, mmap", text);
}

uint64_t IoChannel::ReadRange(const Checkpoint& checkpoint, const ByteRange& range,
                              std::span<std::byte> out) const {
  if (files) return files->ReadRange(checkpoint, range, out);
  const GuardedMap& map = maps[range.shard];
  std::memcpy(out.data(), map.data() + range.offset, range.bytes);
  map.CheckIntact();
  map.LetGo(range.offset, range.bytes);
  return BlocksOf(range).bytes;
}

void IoChannel::CheckUnchanged() const {
  if (files) files->CheckUnchanged();
  for (const GuardedMap& map : maps) map.CheckUnchanged();
}

IoChannel OpenIoChannel(const Checkpoint& checkpoint, const IoOptions& options,
                        const LandingShape& shape, uint64_t tile_bytes) {
  IoChannel channel;
  channel.drives = FindDrives(checkpoint, options.hooks.device_of);
  const size_t drives = channel.drives.drives();
  const size_t depth = ChooseDepth(options, shape, tile_bytes);
  const size_t threads = std::min(depth, kReaderThreads) * drives;
  if (options.mode == IoMode::kMmap) {
    OpenMaps(checkpoint, options, shape, threads, channel);
  } else {
    OpenFiles(checkpoint, options, shape, depth, threads, channel);
  }
  if (drives > 1) channel.description += fmt::format(", {} drives", drives);
  if (options.hooks.wrap_reader) {
    for (auto& reader : channel.readers) reader = options.hooks.wrap_reader(std::move(reader));
  }
  return channel;
}

}  // namespace kimi_k3
