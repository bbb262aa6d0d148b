// Files: descriptors that close themselves, whole reads, atomic writes.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kPartialSuffix = ".partial";

// As many as the system itself follows.
constexpr int kMostLinks = 40;

std::string Reason(int error_number) { return std::generic_category().message(error_number); }

// path: what: why, from the error number of a call that writes.
[[noreturn]] void FailWriting(const std::filesystem::path& path, const std::string& what,
                              int error_number) {
  const std::string message = fmt::format("{}: {}: {}", path.string(), what, Reason(error_number));
  if (error_number == ENOSPC || error_number == EDQUOT) throw NoSpaceError(message);
  throw Error(ErrorKind::kIo, message);
}

void WriteExactly(int fd, const std::filesystem::path& path, uint64_t offset,
                  std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailWriting(path, fmt::format("cannot write at offset {}", offset), errno);
    if (n == 0) {
      Fail(ErrorKind::kIo, "{}: cannot write at offset {}: the system wrote nothing", path.string(),
           offset);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

UniqueFd OpenForReading(const std::filesystem::path& path, int extra_flags) {
  for (;;) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | extra_flags);
    if (fd >= 0) return UniqueFd(fd);
    if (errno != EINTR) Fail(ErrorKind::kIo, "{}: cannot open: {}", path.string(), Reason(errno));
  }
}

uint64_t FileSizeBytes(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot ask for its size: {}", path.string(), Reason(errno));
  }
  if (!S_ISREG(info.st_mode)) Fail(ErrorKind::kIo, "{}: not a regular file", path.string());
  return static_cast<uint64_t>(info.st_size);
}

void ReadExactly(const UniqueFd& fd, const std::filesystem::path& path, uint64_t offset,
                 std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Fail(ErrorKind::kIo, "{}: cannot read at offset {}: {}", path.string(), offset,
           Reason(errno));
    }
    if (n == 0) {
      Fail(ErrorKind::kIo, "{}: ends at offset {}, {} bytes before it should: is it truncated?",
           path.string(), offset, out.size());
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

std::string ReadWholeFile(const std::filesystem::path& path, uint64_t limit_bytes) {
  // Without waiting for the other end of a pipe, which is refused next.
  const UniqueFd fd = OpenForReading(path, O_NONBLOCK);
  const uint64_t size = FileSizeBytes(fd, path);
  if (size > limit_bytes) {
    Fail(ErrorKind::kCheckpoint, "{}: is {} long, more than the {} such a file may have",
         path.string(), FormatByteSize(size), FormatByteSize(limit_bytes));
  }
  std::string text(size, '\0');
  ReadExactly(fd, path, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // What a link leads to is replaced, be it there or not, never the link itself.
  std::error_code failure;
  for (int links = 0; std::filesystem::is_symlink(path_, failure); ++links) {
    if (links == kMostLinks) Fail(ErrorKind::kIo, "{}: is a link to itself", path_.string());
    const std::filesystem::path target = std::filesystem::read_symlink(path_, failure);
    if (failure) {
      Fail(ErrorKind::kIo, "{}: cannot follow this link: {}", path_.string(), failure.message());
    }
    path_ = path_.parent_path() / target;
  }
  const std::filesystem::file_type type = std::filesystem::status(path_, failure).type();
  if (type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::regular) {
    Fail(ErrorKind::kIo, "{}: is there already and is no regular file", path_.string());
  }
  temporary_ = path_;
  temporary_ += fmt::format(".{}{}", getpid(), kPartialSuffix);
  fd_ = UniqueFd(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd_.valid()) FailWriting(path_, "cannot create", errno);
  struct stat replaced = {};
  if (stat(path_.c_str(), &replaced) == 0 && fchmod(fd_.get(), replaced.st_mode & 0777) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot hand on its permissions: {}", path_.string(), Reason(errno));
  }
}

AtomicFile::~AtomicFile() {
  if (fd_.valid()) unlink(temporary_.c_str());
}

void AtomicFile::Append(std::span<const std::byte> bytes) {
  WriteExactly(fd_.get(), path_, end_, bytes);
  end_ += bytes.size();
}

void AtomicFile::Append(std::string_view text) { Append(std::as_bytes(std::span(text))); }

void AtomicFile::Truncate(uint64_t size_bytes) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) {
    FailWriting(path_, fmt::format("cannot make it {} long", FormatByteSize(size_bytes)), errno);
  }
  end_ = std::min(end_, size_bytes);
}

void AtomicFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  WriteExactly(fd_.get(), path_, offset, bytes);
}

void AtomicFile::Commit() {
  if (fsync(fd_.get()) != 0) FailWriting(path_, "cannot sync", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    FailWriting(path_, "cannot be given its name", errno);
  }
  fd_ = UniqueFd();
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const UniqueFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot sync the folder: {}", folder.string(), Reason(errno));
  }
}

std::optional<std::string> AtomicFile::TargetOf(std::string_view file_name) {
  if (!file_name.ends_with(kPartialSuffix)) return std::nullopt;
  file_name.remove_suffix(kPartialSuffix.size());
  const size_t dot = file_name.rfind('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == file_name.size() ||
      file_name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(file_name.substr(0, dot));
}

}  // namespace kimi_k3
