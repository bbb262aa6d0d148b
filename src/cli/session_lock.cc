// One program at a time works on a session.
#include "cli/session_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {
namespace {

// Whether the name still stands for the open file: its last holder removes it.
bool IsStillThere(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat opened = {};
  struct stat named = {};
  return fstat(fd.get(), &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

// SESSION.123.partial, as AtomicFile names what it writes.
void RemoveHalfWritten(const std::filesystem::path& session) {
  std::error_code ignored;
  const auto folder = session.has_parent_path() ? session.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto target = AtomicFile::TargetOf(entry.path().filename().string());
    if (!target || *target != session.filename()) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace

SessionLock::SessionLock(const std::filesystem::path& session) : path_(session) {
  path_ += ".lock";
  for (;;) {
    fd_ = UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!fd_.valid()) {
      Fail(ErrorKind::kIo, "{}: cannot create the lock of this session: {}", path_.string(),
           std::generic_category().message(errno));
    }
    if (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      Fail(ErrorKind::kIo,
           "{}: another kimi_k3 is at work on this session ({} is locked): let it end, or name "
           "another file",
           session.string(), path_.string());
    }
    if (IsStillThere(fd_, path_)) break;
  }
  RemoveHalfWritten(session);
}

SessionLock::~SessionLock() { unlink(path_.c_str()); }

}  // namespace kimi_k3
