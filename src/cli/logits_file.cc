// Rows of logits on disk, for one run to write and later ones to read.
#include "cli/logits_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/byte_size.h"
#include "base/checked_math.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

UniqueFd OpenNameless(const std::filesystem::path& folder) {
  UniqueFd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid() || errno == ENOENT) return fd;
  // Not every file system has files without a name.
  std::string name = (folder / "kimi_k3-XXXXXX").string();
  fd = UniqueFd(mkostemp(name.data(), O_CLOEXEC));
  if (fd.valid()) unlink(name.c_str());
  return fd;
}

[[noreturn]] void FailWith(const std::filesystem::path& folder, int reason) {
  Fail(ErrorKind::kIo, "logits on their way through {}: {}", folder.string(),
       std::generic_category().message(reason));
}

}  // namespace

LogitsFile::LogitsFile(const std::filesystem::path& folder, size_t rows, size_t columns)
    : folder_(folder), columns_(columns), fd_(OpenNameless(folder)) {
  if (!fd_.valid()) FailWith(folder, errno);
  const auto bytes = CheckedMul(uint64_t{rows}, uint64_t{columns} * sizeof(float));
  if (!bytes || *bytes > uint64_t{INT64_MAX}) FailWith(folder, EFBIG);
  const int reason = posix_fallocate(fd_.get(), 0, static_cast<off_t>(*bytes));
  if (reason != 0 && *bytes > 0) {
    Fail(ErrorKind::kIo, "{}: has no room for logits of {}: {}; name another folder (--scratch)",
         folder.string(), FormatByteSize(*bytes), std::generic_category().message(reason));
  }
}

void LogitsFile::Write(size_t row, std::span<const float> values) {
  std::span<const std::byte> left = std::as_bytes(values);
  uint64_t offset = OffsetOf(row);
  while (!left.empty()) {
    const ssize_t n = pwrite(fd_.get(), left.data(), left.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) FailWith(folder_, n < 0 ? errno : ENOSPC);
    left = left.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void LogitsFile::Read(size_t row, std::span<float> values) const {
  ReadExactly(fd_, folder_, OffsetOf(row), std::as_writable_bytes(values));
}

}  // namespace kimi_k3
