// Opening files of a downloaded folder: only regular ones, and stubs are recognised.
#include "checkpoint/untrusted_file.h"

#include <fcntl.h>

#include <span>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void RefuseKind(const fs::path& path, const char* what) {
  Fail(ErrorKind::kCheckpoint, "{}: is {}, not a file", path.string(), what);
}

}  // namespace

OpenFile OpenRegularFile(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  switch (status.type()) {
    case fs::file_type::regular:
      break;
    case fs::file_type::not_found:
      if (fs::is_symlink(fs::symlink_status(path, error))) {
        Fail(ErrorKind::kCheckpoint, "{}: is a link to a file that is not there", path.string());
      }
      Fail(ErrorKind::kCheckpoint, "{}: is missing", path.string());
    case fs::file_type::directory:
      RefuseKind(path, "a folder");
    case fs::file_type::fifo:
      RefuseKind(path, "a pipe");
    case fs::file_type::none:
      if (error == std::errc::too_many_symbolic_link_levels) {
        Fail(ErrorKind::kCheckpoint, "{}: is a link that leads back to itself", path.string());
      }
      Fail(ErrorKind::kIo, "{}: cannot look at it: {}", path.string(), error.message());
    default:
      RefuseKind(path, "a device or a socket");
  }
  // Should the path be swapped for a pipe after the look, O_NONBLOCK keeps open from waiting.
  OpenFile file{OpenForReading(path, O_NONBLOCK), 0};
  file.bytes = FileSizeBytes(file.fd, path);
  return file;
}

bool IsLfsPointer(std::string_view beginning) {
  return beginning.starts_with("version https://git-lfs.github.com/spec/");
}

std::string ReadTextFile(const fs::path& path, uint64_t limit_bytes) {
  const OpenFile file = OpenRegularFile(path);
  if (file.bytes > limit_bytes) {
    Fail(ErrorKind::kCheckpoint, "{}: is {} long, more than the {} such a file may have",
         path.string(), FormatByteSize(file.bytes), FormatByteSize(limit_bytes));
  }
  std::string text(file.bytes, '\0');
  ReadExactly(file.fd, path, 0, std::as_writable_bytes(std::span(text)));
  if (IsLfsPointer(text)) {
    Fail(ErrorKind::kCheckpoint,
         "{}: is a git-lfs pointer: the real file was never downloaded (run git lfs pull, or fetch "
         "this file again)",
         path.string());
  }
  return text;
}

}  // namespace kimi_k3
