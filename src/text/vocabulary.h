// The ordinary tokens: byte strings by rank, and ranks by byte string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3::text {

// Grows by appending; const functions may run on several threads.
class Vocabulary {
 public:
  Vocabulary() { starts_.push_back(0); }

  // Gives `bytes` the next id; false (and no change) where they are a token already.
  bool Append(std::string_view bytes);

  TokenId size() const { return static_cast<TokenId>(starts_.size() - 1); }

  // 0 <= id < size().
  std::string_view Bytes(TokenId id) const {
    const uint32_t start = starts_[static_cast<size_t>(id)];
    return std::string_view(bytes_).substr(start, starts_[static_cast<size_t>(id) + 1] - start);
  }

  std::optional<TokenId> Find(std::string_view bytes) const;

 private:
  // Open addressing; the tag spares most comparisons of bytes.
  struct Slot {
    uint32_t tag = 0;
    TokenId id = kEmpty;
  };
  static constexpr TokenId kEmpty = -1;

  // The slot that holds `bytes`, or the empty one where they belong.
  size_t FindSlot(std::string_view bytes, size_t hash) const;
  void Grow();

  std::string bytes_;             // all tokens, one after another
  std::vector<uint32_t> starts_;  // of each token, and the end of the last
  std::vector<Slot> slots_;       // a power of two of them, at most half full
  size_t longest_ = 0;
};

}  // namespace kimi_k3::text
