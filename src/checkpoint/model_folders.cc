// The folders that a model's files lie in.
#include "checkpoint/model_folders.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {

namespace fs = std::filesystem;

void CheckFolders(std::span<const fs::path> folders) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::file_type type = fs::status(folder, error).type();
    if (type == fs::file_type::directory) continue;
    const bool gone = type == fs::file_type::not_found;
    if (gone && fs::is_symlink(fs::symlink_status(folder, error))) {
      Fail(ErrorKind::kCheckpoint, "{}: is a link to a folder that is not there", folder.string());
    }
    if (gone) {
      Fail(ErrorKind::kCheckpoint,
           "{}: does not exist; name the folder that the model's files lie in", folder.string());
    }
    if (type == fs::file_type::none) {
      Fail(ErrorKind::kIo, "{}: cannot look at it: {}", folder.string(), error.message());
    }
    Fail(ErrorKind::kCheckpoint, "{}: is no folder; name the folder that the model's files lie in",
         folder.string());
  }
}

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
