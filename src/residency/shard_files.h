// The open shards of a checkpoint, as readers use them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "residency/file_version.h"
#include "residency/reader.h"

namespace kimi_k3 {

// The system call that fetches bytes: pread, or what a test puts in its place. Returns bytes or a
// negative errno.
using PreadFunction = std::function<ssize_t(int fd, std::span<std::byte> out, uint64_t offset)>;
ssize_t SystemPread(int fd, std::span<std::byte> out, uint64_t offset);

// How the page cache is involved.
enum class CacheUse : uint8_t {
  kBypass,     // O_DIRECT
  kPrefer,     // O_DIRECT where a trial read on its file system works, else the page cache
  kUse,        // through the page cache, which keeps what it likes
  kDropBehind  // through the page cache, which is told to forget what was read
};

// Opens every shard once and keeps it open, so that a renamed or deleted file stays readable.
// Immutable; safe to use from many threads.
class ShardFiles {
 public:
  // Throws Error(kIo) naming the file: cannot be opened, does not allow O_DIRECT (kBypass), or has
  // changed its length since its header was read.
  ShardFiles(const Checkpoint& checkpoint, CacheUse use, PreadFunction pread = SystemPread);

  int fd(uint32_t shard) const { return files_[shard].fd.get(); }
  bool direct(uint32_t shard) const { return files_[shard].direct; }
  bool drop_behind() const { return drop_behind_; }
  bool any_direct() const;
  bool all_direct() const;
  const PreadFunction& pread() const { return pread_; }

  // Carries a request out in this thread, retrying as Reader promises.
  ReadCompletion Read(const ReadRequest& request) const;
  // Reads a range of any alignment at once, through a buffer of its blocks. Throws Error(kIo).
  // Returns the bytes fetched, blocks counted whole.
  uint64_t ReadRange(const Checkpoint& checkpoint, const ByteRange& range,
                     std::span<std::byte> out) const;
  // Throws Error(kIo) naming the first shard that was cut, extended or written to since it was
  // opened.
  void CheckUnchanged() const;
  // Tells the page cache to forget the blocks of a finished read, where that was asked for.
  void Forget(uint32_t shard, uint64_t offset, uint64_t bytes) const;

 private:
  struct File {
    UniqueFd fd;
    bool direct = false;
  };
  // What is known of shard i when files_[i] has been opened.
  struct Identity {
    std::filesystem::path path;
    FileVersion version;
  };
  File Open(const std::filesystem::path& path, CacheUse use,
            std::map<dev_t, bool>& device_allows) const;

  std::vector<File> files_;
  std::vector<Identity> identities_;
  bool drop_behind_ = false;
  PreadFunction pread_;
};

}  // namespace kimi_k3
