// The ordinary tokens of a vocabulary as a tree of their bytes.
#include "grammar/token_trie.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace kimi_k3::grammar {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  std::vector<TokenId> ids(static_cast<size_t>(tokenizer.first_special_id()));
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::sort(ids, {}, [&](TokenId id) { return tokenizer.TokenBytes(id); });
  std::vector<size_t> path;  // nodes of the latest token, one a byte
  const auto leave_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].after = static_cast<uint32_t>(nodes_.size());
    }
  };
  for (const TokenId id : ids) {
    const std::string_view bytes = tokenizer.TokenBytes(id);
    longest_ = std::max(longest_, bytes.size());
    size_t shared = 0;
    while (shared < path.size() && shared < bytes.size() &&
           nodes_[path[shared]].byte == static_cast<uint8_t>(bytes[shared])) {
      ++shared;
    }
    leave_to(shared);
    for (; shared < bytes.size(); ++shared) {
      path.push_back(nodes_.size());
      nodes_.push_back(
          {.depth = static_cast<uint16_t>(shared), .byte = static_cast<uint8_t>(bytes[shared])});
    }
    nodes_[path.back()].token = id;
  }
  leave_to(0);
}

}  // namespace kimi_k3::grammar
