// States of texts on disk: those that had to leave memory, and those of the run before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kimi_k3/engine.h"

namespace kimi_k3 {

// A folder of session files, one a text, whose names it makes itself. What it finds there at its
// start can be gone on with too. Servers may share the folder, also with other flags: a state is
// used by those that can, and all count for the limit of each. The least recently used of all makes
// room. Damaged files are removed. One thread at a time.
class StateCache {
 public:
  using Tell = std::function<void(const std::string&)>;
  // Writes the sequence's state to the path as SaveSession does.
  using Writer = std::function<void(const Engine&, const Sequence&, const std::filesystem::path&)>;

  // Makes the folder where it is not there; throws Error(kIo). most_bytes: of all states in it.
  // approximations: the engine's. tell: takes a line about what goes wrong; may be null.
  StateCache(std::filesystem::path folder, uint64_t most_bytes, std::string approximations = {},
             Tell tell = {});

  // How many tokens of `prompt` the best file has; all of them are its text, and some of the prompt
  // remains. 0: there is none.
  size_t TokensFor(std::span<const TokenId> prompt) const;

  // Brings the sequence to the state of that file. False where it cannot be used after all: then
  // the sequence is empty and the file is not tried again; a damaged one is removed.
  bool Load(const Engine& engine, Sequence& sequence, std::span<const TokenId> prompt);

  // Keeps the sequence's state, which must be intact, unless the text is there already. Where the
  // drive is full the oldest make room for it. False where that does not help, or it fails for
  // another reason: then nothing is kept, and a line is told, once until it works again.
  bool Save(const Engine& engine, const Sequence& sequence);

  size_t files() const { return entries_.size(); }  // that can be gone on with
  uint64_t bytes() const;                           // of all

  // For tests: what writes in the place of SaveSession.
  void SetWriter(Writer writer) { writer_ = std::move(writer); }

 private:
  struct Entry {
    std::filesystem::path path;
    std::vector<TokenId> tokens;
  };
  struct File {
    std::filesystem::path path;
    uint64_t bytes = 0;
    std::filesystem::file_time_type last_used;
  };
  std::vector<Entry>::const_iterator Find(std::span<const TokenId> prompt) const;
  std::string NameFor(std::span<const TokenId> tokens) const;
  std::vector<File> Files() const;
  void RemoveLeftovers();
  void FindStates();
  void Discard(const std::filesystem::path& path, const std::string& reason);
  bool IsKept(std::span<const TokenId> tokens);
  void Write(const Engine& engine, const Sequence& sequence, const std::filesystem::path& path);
  uint64_t RemoveOldest(uint64_t bytes);
  void MakeRoom();
  void TellWorking(bool working, const std::string& reason);

  const std::filesystem::path folder_;
  const uint64_t most_bytes_;
  const std::string approximations_;
  const Tell tell_;
  Writer writer_;
  bool failing_ = false;
  std::vector<Entry> entries_;
};

}  // namespace kimi_k3
