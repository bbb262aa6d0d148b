// Reads the lines of a file one after another, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace kimi_k3 {

struct ScannedLine {
  uint64_t number = 1;    // from 1
  uint64_t offset = 0;    // of its first byte
  uint64_t bytes = 0;     // without the line feed
  std::string_view text;  // empty where the line is too long; until the next one is read
  bool too_long = false;
  bool ended = true;  // by a line feed; false: the file ended first
};

// From the file's beginning to its end. The descriptor must outlive it; nothing else may move its
// place in the file.
class LineScanner {
 public:
  // path: for messages. Lines of more than most_bytes are told of and passed over.
  LineScanner(const UniqueFd& fd, std::filesystem::path path, uint64_t most_bytes);

  // The next line; nothing at the end. Throws Error(kIo).
  std::optional<ScannedLine> Next();

 private:
  bool Fill();

  const UniqueFd& fd_;
  const std::filesystem::path path_;
  const uint64_t most_bytes_;
  std::vector<char> buffer_;
  size_t at_ = 0;   // in the buffer
  size_t end_ = 0;  // of what was read
  uint64_t offset_ = 0;
  uint64_t number_ = 0;
  std::string line_;
};

}  // namespace kimi_k3
