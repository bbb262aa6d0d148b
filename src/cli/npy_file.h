// A NumPy file of f32 rows, written row by row.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/file.h"

namespace kimi_k3 {

// FILE.npy (format version 1.0, little-endian f32, C order) of shape [rows, columns]. It appears at
// `path` when Commit is called and not before.
class NpyFile {
 public:
  NpyFile(const std::filesystem::path& path, size_t rows, size_t columns);
  // values: columns numbers. Throws Error(kIo).
  void AppendRow(std::span<const float> values);
  void Commit();

 private:
  AtomicFile file_;
};

}  // namespace kimi_k3
