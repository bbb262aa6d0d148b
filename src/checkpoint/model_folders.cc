// The folders that a model's files lie in.
#include "checkpoint/model_folders.h"

#include <algorithm>
#include <system_error>

namespace kimi_k3 {

namespace fs = std::filesystem;

bool HasEntry(const fs::path& folder, std::string_view name) {
  std::error_code error;
  return fs::symlink_status(folder / name, error).type() != fs::file_type::not_found;
}

const fs::path& FolderWith(std::span<const fs::path> folders, std::string_view name) {
  const auto whole = std::ranges::find_if(folders, [name](const fs::path& folder) {
    std::error_code error;
    return fs::status(folder / name, error).type() != fs::file_type::not_found;
  });
  if (whole != folders.end()) return *whole;
  const auto entry = std::ranges::find_if(
      folders, [name](const fs::path& folder) { return HasEntry(folder, name); });
  return entry != folders.end() ? *entry : folders.front();
}

}  // namespace kimi_k3
