// One program at a time changes a model's folder.
#pragma once

#include <filesystem>

#include "base/file.h"

namespace kimi_k3 {

// Holds the lock .kimi_k3/lock of a folder while it lives, and makes both where they are missing.
class FolderLock {
 public:
  // Throws Error(kIo) where they cannot be made, or another program holds the lock.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  UniqueFd fd_;
};

}  // namespace kimi_k3
