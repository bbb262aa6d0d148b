// The open shards of a checkpoint, as readers use them.
#include "residency/shard_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/error.h"

namespace kimi_k3 {

ssize_t SystemPread(int fd, std::span<std::byte> out, uint64_t offset) {
  const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
  return n < 0 ? -errno : n;
}

ShardFiles::ShardFiles(const Checkpoint& checkpoint, CacheUse use, PreadFunction pread)
    : drop_behind_(use == CacheUse::kDropBehind), pread_(std::move(pread)) {
  files_.reserve(checkpoint.shards().size());
  std::map<dev_t, bool> device_allows;
  for (const Shard& shard : checkpoint.shards()) {
    files_.push_back(Open(shard.path, use, device_allows));
    identities_.push_back({shard.path, FileVersion(files_.back().fd, shard.path, shard.bytes)});
  }
}

ShardFiles::File ShardFiles::Open(const std::filesystem::path& path, CacheUse use,
                                  std::map<dev_t, bool>& device_allows) const {
  if (use == CacheUse::kUse || use == CacheUse::kDropBehind) return {OpenForReading(path), false};
  struct stat info = {};
  if (use == CacheUse::kPrefer && stat(path.c_str(), &info) != 0) info = {};
  const auto known = device_allows.find(info.st_dev);
  if (known != device_allows.end() && !known->second) return {OpenForReading(path), false};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  ssize_t status = fd < 0 ? -errno : 1;
  File file = {UniqueFd(fd), fd >= 0};
  // Some file systems accept the flag and refuse the read, so a real one decides.
  if (file.direct && known == device_allows.end()) {
    AlignedBuffer<std::byte> block(kBlockBytes, kBlockBytes);
    do {
      status = pread_(fd, block.span(), 0);
    } while (status == -EINTR || status == -EAGAIN);
    file.direct = status > 0;
    device_allows[info.st_dev] = file.direct;
  }
  if (file.direct) return file;
  File buffered = {OpenForReading(path), false};
  if (use == CacheUse::kBypass) {
    Fail(ErrorKind::kIo, "{}: cannot be read directly: {} (try --io auto)", path.string(),
         std::generic_category().message(static_cast<int>(-status)));
  }
  return buffered;
}

bool ShardFiles::any_direct() const {
  return std::any_of(files_.begin(), files_.end(), [](const File& f) { return f.direct; });
}

bool ShardFiles::all_direct() const {
  return std::all_of(files_.begin(), files_.end(), [](const File& f) { return f.direct; });
}

ReadCompletion ShardFiles::Read(const ReadRequest& request) const {
  ReadProgress progress(request, direct(request.shard));
  while (progress.Take(pread_(fd(request.shard),
                              {progress.destination(), static_cast<size_t>(progress.bytes())},
                              progress.offset())) == ReadProgress::Next::kAgain) {
  }
  Forget(request.shard, request.offset, request.bytes);
  return progress.completion();
}

uint64_t ShardFiles::ReadRange(const Checkpoint& checkpoint, const ByteRange& range,
                               std::span<std::byte> out) const {
  const ByteRange blocks = BlocksOf(range);
  AlignedBuffer<std::byte> buffer(blocks.bytes, kBlockBytes);
  const uint64_t lead = range.offset - blocks.offset;
  const ReadCompletion completion =
      Read({nullptr, range.shard, blocks.offset, buffer.data(), blocks.bytes, lead + range.bytes});
  if (completion.failure) {
    throw Error(ErrorKind::kIo, DescribeFailure(*completion.failure, checkpoint));
  }
  std::memcpy(out.data(), buffer.data() + lead, range.bytes);
  return completion.bytes;
}

void ShardFiles::CheckUnchanged() const {
  for (size_t i = 0; i < files_.size(); ++i) {
    identities_[i].version.CheckUnchanged(files_[i].fd, identities_[i].path);
  }
}

void ShardFiles::Forget(uint32_t shard, uint64_t offset, uint64_t bytes) const {
  if (!drop_behind_) return;
  posix_fadvise(fd(shard), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_DONTNEED);
}

}  // namespace kimi_k3
