// Generated turns on disk, to be known again after more of them than memory holds, and by a later
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "kimi_k3/tokenizer.h"
#include "server/generated_turn.h"

namespace kimi_k3::server {

// Of the bytes that a folder of states may have, those that its turns may.
uint64_t TurnBytesOf(uint64_t cache_bytes);

// A folder of small files, one a turn. Nothing in a file is believed: it carries a checksum, and
// its ids must be the turn that it says they are. One thread at a time.
class TurnStore {
 public:
  using Tell = std::function<void(const std::string&)>;
  using Test = std::function<bool(const GeneratedTurn&)>;

  // Makes the folder where it is not there; throws Error(kIo). The files take at most most_bytes;
  // the least recently used make room. tell: takes a line about what goes wrong; may be null. The
  // tokenizer must outlive the store.
  TurnStore(std::filesystem::path folder, uint64_t most_bytes, const Tokenizer& tokenizer,
            Tell tell);

  // A turn that was generated after `before` and passes the test; the latest of those that do. What
  // cannot be used is told of and not tried again; a damaged file is removed.
  std::optional<GeneratedTurn> Find(const TurnKey& before, const Test& test);

  // Keeps the turn. What fails is told, once until it works again.
  void Save(const TurnKey& before, const GeneratedTurn& turn);

  size_t files() const { return files_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct File {
    std::filesystem::path path;
    uint64_t bytes = 0;
    std::filesystem::file_time_type last_used;
  };
  using Files = std::multimap<TurnKey, File>;
  void FindFiles();
  std::optional<GeneratedTurn> Read(const TurnKey& before, const File& file);
  void Add(const TurnKey& before, File file);
  void Remove(Files::iterator file);
  void MakeRoom();
  void TellWorking(bool working, const std::string& reason);

  const std::filesystem::path folder_;
  const uint64_t most_bytes_;
  const Tokenizer& tokenizer_;
  const Tell tell_;
  bool failing_ = false;
  Files files_;
  uint64_t bytes_ = 0;
};

}  // namespace kimi_k3::server
