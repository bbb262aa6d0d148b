// Rows of logits on disk, for one run to write and later ones to read; nobody else sees the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/file.h"

namespace kimi_k3 {

// [rows, columns] of f32 in a file without a name: it is gone when this is. One thread at a time.
class LogitsFile {
 public:
  // Takes the room of all rows at once. Throws Error(kIo) that names `folder` where the file cannot
  // be made there or has no room.
  LogitsFile(const std::filesystem::path& folder, size_t rows, size_t columns);

  // values: columns numbers; row < rows. Throw Error(kIo).
  void Write(size_t row, std::span<const float> values);
  void Read(size_t row, std::span<float> values) const;

 private:
  uint64_t OffsetOf(size_t row) const { return uint64_t{row} * columns_ * sizeof(float); }

  std::filesystem::path folder_;
  size_t columns_;
  UniqueFd fd_;
};

}  // namespace kimi_k3
