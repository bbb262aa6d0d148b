// The ordinary tokens of a vocabulary as a tree of their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3::grammar {

// Immutable; const functions may run on several threads.
class TokenTrie {
 public:
  static constexpr TokenId kNoToken = -1;

  // A byte after those of the nodes above it.
  struct Node {
    uint32_t after = 0;        // the first node that is not below this one
    TokenId token = kNoToken;  // that ends here
    uint16_t depth = 0;        // bytes before this one
    uint8_t byte = 0;
  };

  explicit TokenTrie(const Tokenizer& tokenizer);

  // Each node before those below it.
  std::span<const Node> nodes() const { return nodes_; }
  // Bytes of the longest token.
  size_t longest() const { return longest_; }

 private:
  std::vector<Node> nodes_;
  size_t longest_ = 0;
};

}  // namespace kimi_k3::grammar
