// Byte-pair merging within one piece of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace kimi_k3::text {

// Holds working memory that is reused from piece to piece; one thread at a time.
class BpeMerger {
 public:
  // The vocabulary must outlive the merger and have a token for every single byte.
  explicit BpeMerger(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Appends the ids of a piece: the piece itself where it is a token, else the result of merging,
  // again and again, the leftmost of the neighbours whose concatenation has the lowest rank.
  // n log n in the length of the piece, which must be below 2^32 bytes.
  void Encode(std::string_view piece, std::vector<TokenId>& ids);

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // A token so far, kept at the index of its first byte; size 0 where a neighbour has taken it in.
  struct Node {
    uint32_t size_bytes;
    uint32_t previous;
    TokenId id;
  };
  // Two neighbours that make up a token. Stale once the bytes from `left` on have other owners,
  // which the size tells: tokens only grow.
  struct Candidate {
    TokenId rank;
    uint32_t left;
    uint32_t size_bytes;
    // For a heap with the lowest rank, then the leftmost, on top.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  void Merge(const Candidate& candidate);
  void Consider(uint32_t left);
  bool IsCurrent(const Candidate& candidate) const;
  // The index of the token after the one at `index`; nodes_.size() past the end.
  uint32_t Next(uint32_t index) const { return index + nodes_[index].size_bytes; }

  const Vocabulary& vocabulary_;
  std::string_view piece_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace kimi_k3::text
