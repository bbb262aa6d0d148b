// The special tokens: names, ids, and finding names in text.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3::text {

// Immutable; const functions may run on several threads.
class SpecialTokens {
 public:
  struct Match {
    size_t start = 0;  // in bytes
    size_t size_bytes = 0;
    TokenId id = 0;
  };

  SpecialTokens() = default;
  // The ids first <= id < end; those without an entry in `named` are <|reserved_token_ID|>. Every
  // id in `named` must lie in the range and no name may come twice or be empty.
  SpecialTokens(TokenId first, TokenId end, const std::map<TokenId, std::string>& named);

  TokenId first() const { return first_; }
  TokenId end() const { return first_ + static_cast<TokenId>(names_.size()); }

  // first() <= id < end().
  const std::string& Name(TokenId id) const { return names_[static_cast<size_t>(id - first_)]; }
  std::optional<TokenId> Find(std::string_view name) const;

  // The leftmost name in the text at or after `from`; of several at one place the longest.
  std::optional<Match> FindInText(std::string_view text, size_t from) const;

 private:
  std::optional<Match> MatchAt(std::string_view text, size_t start) const;

  TokenId first_ = 0;
  std::vector<std::string> names_;
  std::vector<TokenId> by_name_;              // sorted by name
  std::array<bool, 256> is_first_byte_ = {};  // of some name
};

// The name of an id without one of its own.
std::string ReservedTokenName(TokenId id);

}  // namespace kimi_k3::text
