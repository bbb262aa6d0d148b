// Files that a run writes at its end: found out at its beginning whether they can be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace kimi_k3 {

// Throws Error(kIo) that names `flag` and the path where a file of `size_bytes` could not be
// written there: a missing or read-only folder, a path that is no regular file, a full disk.
void CheckResultFile(std::string_view flag, const std::filesystem::path& path, uint64_t size_bytes);

}  // namespace kimi_k3
