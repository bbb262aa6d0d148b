// Files: descriptors that close themselves, whole reads, atomic writes, read-only maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kimi_k3/error.h"

namespace kimi_k3 {

// An Error(kIo): a write found no room, on the drive or in the user's share of it.
class NoSpaceError : public Error {
 public:
  explicit NoSpaceError(const std::string& message) : Error(ErrorKind::kIo, message) {}
};

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Opens for reading; throws Error(kIo) naming the file and the reason. extra_flags: O_DIRECT etc.
UniqueFd OpenForReading(const std::filesystem::path& path, int extra_flags = 0);

// Size in bytes of an open file; throws Error(kIo).
uint64_t FileSizeBytes(const UniqueFd& fd, const std::filesystem::path& path);

// Reads exactly out.size() bytes at offset, retrying short reads and EINTR; throws Error(kIo) that
// names file, offset and reason, also where the file ends first.
void ReadExactly(const UniqueFd& fd, const std::filesystem::path& path, uint64_t offset,
                 std::span<std::byte> out);

// The whole file; refuses one larger than limit_bytes with Error(kCheckpoint), unreadable: kIo.
std::string ReadWholeFile(const std::filesystem::path& path, uint64_t limit_bytes);

// A file that appears whole or not at all: written beside `path`, synced, renamed by Commit(), and
// removed by the destructor otherwise. A file that it takes the place of hands on its permissions.
// Every failure throws Error(kIo) naming the file, a full drive NoSpaceError.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void Append(std::span<const std::byte> bytes);
  void Append(std::string_view text);
  // Makes the file `size_bytes` long; what was not written reads as zeros (a hole).
  void Truncate(uint64_t size_bytes);
  // Writes at an offset without moving the end of appended data.
  void WriteAt(uint64_t offset, std::span<const std::byte> bytes);
  void Commit();

  // The name that a file of this name in the same folder was to be given, where it is what a
  // program that was killed has left half-written ("NAME.123.partial").
  static std::optional<std::string> TargetOf(std::string_view file_name);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  UniqueFd fd_;
  uint64_t end_ = 0;
};

}  // namespace kimi_k3
