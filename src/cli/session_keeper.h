// Saves a text's session as it grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/output.h"
#include "cli/session_lock.h"
#include "cli/session_note.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Keeps one session file up to date: after each piece of a prompt, with the first token of an
// answer, and then every `every` tokens.
class SessionKeeper {
 public:
  // Takes the lock, and follows links: the file that `path` leads to is the session. Throws
  // Error(kIo) where another program holds it.
  SessionKeeper(const std::filesystem::path& path, size_t every);

  const std::filesystem::path& path() const { return path_; }
  bool exists() const;

  // Writes the file now; throws Error(kIo). sequence: intact.
  void Save(const Engine& engine, const Sequence& sequence, const SessionNote& note);
  // The same, but a failure is only noted on `output`: the answer matters more.
  void TrySave(const Engine& engine, const Sequence& sequence, const SessionNote& note,
               Output& output);
  // Counts a token of the answer; whether it is time to save.
  bool CountToken();
  // A new answer begins.
  void BeginAnswer() { tokens_ = 0; }

  // Empty, or why the last attempt to save failed.
  const std::string& failure() const { return failure_; }
  uint64_t saves() const { return saves_; }
  double seconds() const { return seconds_; }          // spent saving
  uint64_t file_bytes() const { return file_bytes_; }  // of the last save

 private:
  std::filesystem::path path_;
  SessionLock lock_;
  size_t every_;
  size_t tokens_ = 0;
  uint64_t saves_ = 0;
  double seconds_ = 0;
  uint64_t file_bytes_ = 0;
  std::string failure_;
};

}  // namespace kimi_k3
