// Byte-pair merging within one piece of text: a linked list of tokens and a heap of candidates.
#include "text/bpe.h"

#include <algorithm>

namespace kimi_k3::text {

void BpeMerger::Encode(std::string_view piece, std::vector<TokenId>& ids) {
  if (const auto whole = vocabulary_.Find(piece)) {
    ids.push_back(*whole);
    return;
  }
  piece_ = piece;
  nodes_.clear();
  for (uint32_t i = 0; i < piece.size(); ++i) {
    nodes_.push_back({1, i == 0 ? kNone : i - 1, *vocabulary_.Find(piece.substr(i, 1))});
  }
  heap_.clear();
  for (uint32_t i = 0; i < nodes_.size(); ++i) Consider(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    if (IsCurrent(candidate)) Merge(candidate);
  }
  for (uint32_t i = 0; i < nodes_.size(); i = Next(i)) ids.push_back(nodes_[i].id);
}

bool BpeMerger::IsCurrent(const Candidate& candidate) const {
  const Node& left = nodes_[candidate.left];
  if (left.size_bytes == 0) return false;
  const uint32_t right = Next(candidate.left);
  return right < nodes_.size() &&
         left.size_bytes + nodes_[right].size_bytes == candidate.size_bytes;
}

void BpeMerger::Merge(const Candidate& candidate) {
  Node& left = nodes_[candidate.left];
  nodes_[Next(candidate.left)].size_bytes = 0;
  left.size_bytes = candidate.size_bytes;
  left.id = candidate.rank;
  const uint32_t next = Next(candidate.left);
  if (next < nodes_.size()) nodes_[next].previous = candidate.left;
  Consider(candidate.left);
  if (left.previous != kNone) Consider(left.previous);
}

void BpeMerger::Consider(uint32_t left) {
  const uint32_t right = Next(left);
  if (right >= nodes_.size()) return;
  const uint32_t size_bytes = nodes_[left].size_bytes + nodes_[right].size_bytes;
  if (const auto rank = vocabulary_.Find(piece_.substr(left, size_bytes))) {
    heap_.push_back({*rank, left, size_bytes});
    std::push_heap(heap_.begin(), heap_.end());
  }
}

}  // namespace kimi_k3::text
