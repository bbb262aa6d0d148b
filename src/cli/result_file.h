// Files that a run writes at its end: found out at its beginning whether they can be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace kimi_k3 {

// Throws Error(kIo) that names `flag` and the path where a file of `size_bytes` could not be
// written there: a missing or read-only folder, a path that is no regular file, a full disk.
void CheckResultFile(std::string_view flag, const std::filesystem::path& path, uint64_t size_bytes);

// Throws Error(kUsage) that names `flag` where a file that is there would be replaced in one of the
// model's folders.
void KeepModelWhole(std::string_view flag, const std::filesystem::path& path,
                    const std::vector<std::filesystem::path>& model_folders);

}  // namespace kimi_k3
