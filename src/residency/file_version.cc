// Whether an open file is still the one whose header was read.
#include "residency/file_version.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {
namespace {

struct stat Ask(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot be asked for its length: {}", path.string(),
         std::generic_category().message(errno));
  }
  return info;
}

}  // namespace

FileVersion::FileVersion(const UniqueFd& fd, const std::filesystem::path& path,
                         uint64_t expected_bytes)
    : bytes_(expected_bytes) {
  const struct stat info = Ask(fd, path);
  modified_ = info.st_mtim;
  if (static_cast<uint64_t>(info.st_size) != expected_bytes) {
    Fail(ErrorKind::kIo, "{}: is {} bytes long, was {} when its header was read", path.string(),
         info.st_size, expected_bytes);
  }
}

void FileVersion::CheckUnchanged(const UniqueFd& fd, const std::filesystem::path& path) const {
  const struct stat info = Ask(fd, path);
  const auto now = static_cast<uint64_t>(info.st_size);
  if (now != bytes_) {
    Fail(ErrorKind::kIo, "{}: was {} from {} to {} bytes while in use", path.string(),
         now < bytes_ ? "cut" : "extended", bytes_, now);
  }
  if (info.st_mtim.tv_sec != modified_.tv_sec || info.st_mtim.tv_nsec != modified_.tv_nsec) {
    Fail(ErrorKind::kIo,
         "{}: was written to while in use; what was computed since cannot be trusted. Check the "
         "file and start again",
         path.string());
  }
}

}  // namespace kimi_k3
