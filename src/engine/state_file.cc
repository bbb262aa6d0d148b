// A file without a name that holds what memory has no room for, gone when it is closed.
#include "engine/state_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/aligned_buffer.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "residency/reader.h"

namespace kimi_k3 {
namespace {

std::string ReasonOf(int error) { return std::generic_category().message(error); }

UniqueFd OpenNamelessFile(const std::filesystem::path& folder) {
  UniqueFd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid() && errno != ENOENT && errno != ENOTDIR) {
    // Not every file system has files without a name.
    std::string name = (folder / "kimi_k3-XXXXXX").string();
    fd = UniqueFd(mkostemp(name.data(), O_CLOEXEC));
    if (fd.valid()) unlink(name.c_str());
  }
  if (fd.valid()) return fd;
  Fail(ErrorKind::kIo, "{}: cannot hold states: {} (--state-dir names a folder that is there)",
       folder.string(), ReasonOf(errno));
}

UniqueFd OpenOnDrive(const std::filesystem::path& folder) {
  UniqueFd fd = OpenNamelessFile(folder);
  if (!StateFile::LiesInMemory(folder)) return fd;
  Fail(ErrorKind::kUsage,
       "{}: lies in memory, which is what states are to be kept out of; name "
       "a folder on a drive (--state-dir)",
       folder.string());
}

// Some file systems count nothing.
std::optional<uint64_t> FreeBytes(const UniqueFd& fd) {
  struct statvfs room = {};
  if (fstatvfs(fd.get(), &room) != 0 || room.f_blocks == 0) return std::nullopt;
  return uint64_t{room.f_bavail} * room.f_frsize;
}

}  // namespace

StateFile::StateFile(const std::filesystem::path& folder, uint64_t bytes, const std::string& whose)
    : folder_(folder), fd_(OpenOnDrive(folder)) {
  TakeRoom(bytes, whose);
  direct_ = GoDirect();
}

std::optional<uint64_t> StateFile::RoomIn(const std::filesystem::path& folder) {
  return FreeBytes(OpenOnDrive(folder));
}

bool StateFile::LiesInMemory(const std::filesystem::path& folder) {
  struct statfs info = {};
  if (statfs(folder.c_str(), &info) != 0) return false;
  const auto type = static_cast<uint64_t>(info.f_type) & 0xffffffffU;
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

void StateFile::TakeRoom(uint64_t bytes, const std::string& whose) const {
  // Asked first: a drive that is too small is not filled to find it out.
  const std::optional<uint64_t> free = FreeBytes(fd_);
  int reason = bytes > uint64_t{INT64_MAX} ? EFBIG : free && *free < bytes ? ENOSPC : 0;
  if (reason == 0 && fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) != 0) reason = errno;
  // Nothing can be set aside on such a drive.
  if (reason == EOPNOTSUPP) {
    reason = ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0 ? errno : 0;
  }
  if (reason == 0) return;
  Fail(
      ErrorKind::kIo,
      "{}: has no room for {}, which take {} ({}; {} are free): name another folder (--state-dir), "
      "fewer texts at once (--parallel) or more memory (--memory)",
      folder_.string(), whose, FormatByteSize(bytes), ReasonOf(reason),
      free ? FormatByteSize(*free) : "it is not known how many");
}

// Some file systems accept the flag and refuse the write, so a real one decides.
bool StateFile::GoDirect() const {
  const int flags = fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) != 0) return false;
  AlignedBuffer<std::byte> block(kBlockBytes, kBlockBytes);
  std::fill_n(block.data(), block.size(), std::byte{0});
  ssize_t n = 0;
  do {
    n = pwrite(fd_.get(), block.data(), block.size(), 0);
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(block.size())) return true;
  return fcntl(fd_.get(), F_SETFL, flags) != 0;
}

void StateFile::Read(uint64_t offset, std::span<std::byte> out) const {
  ReadExactly(fd_, folder_, offset, out);
  bytes_read_ += out.size();
}

void StateFile::Write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Fail(ErrorKind::kIo,
           "{}: states cannot be written to it: {}; make room, or name another "
           "folder (--state-dir)",
           folder_.string(), ReasonOf(n < 0 ? errno : ENOSPC));
    }
    bytes_written_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

}  // namespace kimi_k3
