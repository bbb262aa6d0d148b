// The files that an interrupted verification found good.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "fetch/known_file.h"

namespace kimi_k3 {

// Kept in the folder's own folder, a line each: size, time of modification, hash and name, so that
// a file that has changed since is not taken for good. One thread at a time.
class VerifyMemory {
 public:
  // go_on: read what is remembered; else forget it.
  VerifyMemory(const std::filesystem::path& folder, bool go_on);
  // Whether anything is remembered in this folder.
  static bool Exists(const std::filesystem::path& folder);

  bool Knows(const KnownFile& file) const;
  // In a folder that cannot be written to nothing is remembered.
  void Remember(const KnownFile& file) const;
  // Leaves no trace of what was remembered, and touches nothing else.
  void Forget() const;

 private:
  std::filesystem::path path_;
  std::set<std::string> good_;
};

}  // namespace kimi_k3
