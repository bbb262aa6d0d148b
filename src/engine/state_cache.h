// States of texts on disk: those that had to leave memory, and those of the run before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kimi_k3/engine.h"

namespace kimi_k3 {

// A folder of session files, one a text, whose names it makes itself. What it finds there at its
// start can be gone on with too; files that it cannot use stay where they are and are left alone.
// The least recently used make room for others. One thread at a time.
class StateCache {
 public:
  // Makes the folder where it is not there; throws Error(kIo). most_bytes: of all its files.
  // approximations: the engine's; texts of engines with others are left alone.
  StateCache(std::filesystem::path folder, uint64_t most_bytes, std::string approximations = {});

  // How many tokens of `prompt` the best file has; all of them are its text, and some of the prompt
  // remains. 0: there is none.
  size_t TokensFor(std::span<const TokenId> prompt) const;

  // Brings the sequence to the state of that file. False where it cannot be used after all: then
  // the sequence is empty and the file is not tried again, also not by a later run if it is
  // damaged.
  bool Load(const Engine& engine, Sequence& sequence, std::span<const TokenId> prompt);

  // Keeps the sequence's state, which must be intact, unless the text is there already. Whatever
  // fails (a full disk) leaves things as they were: false.
  bool Save(const Engine& engine, const Sequence& sequence);

  size_t files() const { return entries_.size(); }
  uint64_t bytes() const;

 private:
  struct Entry {
    std::filesystem::path path;
    std::vector<TokenId> tokens;
    uint64_t bytes = 0;
    uint64_t last_used = 0;
  };
  std::vector<Entry>::const_iterator Find(std::span<const TokenId> prompt) const;
  void MakeRoom();

  std::string NameFor(std::span<const TokenId> tokens) const;

  const std::filesystem::path folder_;
  const uint64_t most_bytes_;
  const std::string approximations_;
  uint64_t uses_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace kimi_k3
