// Holes of a file: ranges that were never written and read as zeros.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {

struct FileHole {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The first hole of a file; nothing where there is none, or the system does not tell.
std::optional<FileHole> FirstHole(const OpenFile& file);

}  // namespace kimi_k3
