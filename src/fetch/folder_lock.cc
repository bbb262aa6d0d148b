// One program at a time changes a model's folder.
#include "fetch/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "checkpoint/fetched_part.h"
#include "fetch/safe_name.h"

namespace kimi_k3 {
namespace {

// Whether the name still stands for the open file: its last holder may have removed it.
bool IsStillNamed(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat opened = {};
  struct stat named = {};
  return fstat(fd.get(), &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path own = PlaceInFolder(folder, kOwnFolder);
  std::error_code error;
  std::filesystem::create_directories(own, error);
  if (error) Fail(ErrorKind::kIo, "{}: cannot make the folder: {}", own.string(), error.message());
  const std::filesystem::path path = own / "lock";
  fd_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd_.valid()) {
    Fail(ErrorKind::kIo, "{}: cannot write: {}", path.string(),
         std::generic_category().message(errno));
  }
  const bool locked = flock(fd_.get(), LOCK_EX | LOCK_NB) == 0;
  if (locked && IsStillNamed(fd_, path)) return;
  if (locked || errno == EWOULDBLOCK) {
    Fail(ErrorKind::kIo, "{}: another kimi_k3 is at work in this folder", folder.string());
  }
  Fail(ErrorKind::kIo, "{}: cannot lock: {}", path.string(),
       std::generic_category().message(errno));
}

}  // namespace kimi_k3
