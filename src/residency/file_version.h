// Whether an open file is still the one whose header was read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <filesystem>

#include "base/file.h"

namespace kimi_k3 {

// Length and time of last modification of an open file, as they were when this was made. Immutable;
// safe to use from many threads.
class FileVersion {
 public:
  // Throws Error(kIo) naming the file: it cannot be asked, or is not `expected_bytes` long.
  FileVersion(const UniqueFd& fd, const std::filesystem::path& path, uint64_t expected_bytes);

  // Throws Error(kIo) naming the file if it was cut, extended or written to since. `fd` and `path`
  // are those it was made with.
  void CheckUnchanged(const UniqueFd& fd, const std::filesystem::path& path) const;

 private:
  uint64_t bytes_;
  timespec modified_;
};

}  // namespace kimi_k3
