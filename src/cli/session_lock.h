// One program at a time works on a session.
#pragma once

#include <filesystem>

#include "base/file.h"

namespace kimi_k3 {

// Holds SESSION.lock while it lives, and clears away what a killed program left half written beside
// the session. The lock goes with the process, however it ends.
class SessionLock {
 public:
  // Throws Error(kIo) where another program holds it or the file cannot be made.
  explicit SessionLock(const std::filesystem::path& session);
  ~SessionLock();
  SessionLock(const SessionLock&) = delete;
  SessionLock& operator=(const SessionLock&) = delete;

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

}  // namespace kimi_k3
