// Read-only maps of files whose pages may turn out to be unreadable while they are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/file.h"
#include "residency/file_version.h"

namespace kimi_k3 {

// The whole of one file, mapped read-only. Touching a page that the system cannot provide (the
// file was cut, the drive failed) would end the process with SIGBUS; here the page reads as zeros
// instead and the map remembers it, so that CheckIntact, called before anything computed from the
// bytes is used, can refuse. Threads may read at will; the handler is installed with the first map
// of the process, stays, and passes every fault that is not ours to the handler before it.
class GuardedMap {
 public:
  // Throws Error(kIo) naming the file: it cannot be opened or mapped, or is not `expected_bytes`
  // long (it was, when its header was read).
  GuardedMap(const std::filesystem::path& path, uint64_t expected_bytes);
  ~GuardedMap();
  GuardedMap(const GuardedMap&) = delete;
  GuardedMap& operator=(const GuardedMap&) = delete;

  // [0, size_bytes()) of the file.
  const std::byte* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Throws Error(kIo) with file and offset if any page was ever unreadable, or if the file is
  // shorter by now: the rest of its last page would read as zeros without a fault.
  void CheckIntact() const;
  // Throws Error(kIo) if the file was cut, extended or written to since it was mapped.
  void CheckUnchanged() const { version_.CheckUnchanged(fd_, path_); }

  // The pages of [offset, offset + bytes) need not stay resident.
  void LetGo(uint64_t offset, uint64_t bytes) const;
  // Those that lie wholly inside need not stay in the page cache either. The system may take a
  // millisecond for it, whatever the length: for long ranges that were let go a while ago.
  void Forget(uint64_t offset, uint64_t bytes) const;

 private:
  struct Slot;
  std::filesystem::path path_;
  UniqueFd fd_;
  FileVersion version_;
  uint64_t size_bytes_ = 0;
  const std::byte* data_ = nullptr;
  Slot* slot_ = nullptr;
};

}  // namespace kimi_k3
