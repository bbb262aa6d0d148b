// The special tokens: names, ids, and finding names in text.
#include "text/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>

namespace kimi_k3::text {

std::string ReservedTokenName(TokenId id) { return fmt::format("<|reserved_token_{}|>", id); }

SpecialTokens::SpecialTokens(TokenId first, TokenId end,
                             const std::map<TokenId, std::string>& named)
    : first_(first) {
  for (TokenId id = first; id < end; ++id) {
    const auto entry = named.find(id);
    names_.push_back(entry != named.end() ? entry->second : ReservedTokenName(id));
    by_name_.push_back(id);
    is_first_byte_[static_cast<unsigned char>(names_.back().front())] = true;
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [this](TokenId a, TokenId b) { return Name(a) < Name(b); });
}

std::optional<TokenId> SpecialTokens::Find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](TokenId id, std::string_view n) { return Name(id) < n; });
  if (at == by_name_.end() || Name(*at) != name) return std::nullopt;
  return *at;
}

std::optional<SpecialTokens::Match> SpecialTokens::FindInText(std::string_view text,
                                                              size_t from) const {
  for (size_t start = from; start < text.size(); ++start) {
    if (!is_first_byte_[static_cast<unsigned char>(text[start])]) continue;
    if (const auto match = MatchAt(text, start)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted names, byte by byte, to those that begin as the text does.
std::optional<SpecialTokens::Match> SpecialTokens::MatchAt(std::string_view text,
                                                           size_t start) const {
  std::optional<Match> longest;
  auto low = by_name_.begin();
  auto high = by_name_.end();
  for (size_t depth = 0; start + depth < text.size(); ++depth) {
    const auto wanted = static_cast<unsigned char>(text[start + depth]);
    // A name that ends here sorts before all others with the same beginning.
    const auto byte_at = [this, depth](TokenId id) {
      const std::string& name = Name(id);
      return depth < name.size() ? static_cast<int>(static_cast<unsigned char>(name[depth])) : -1;
    };
    low = std::partition_point(low, high, [&](TokenId id) { return byte_at(id) < wanted; });
    high = std::partition_point(low, high, [&](TokenId id) { return byte_at(id) == wanted; });
    if (low == high) break;
    if (Name(*low).size() == depth + 1) longest = Match{start, depth + 1, *low};
  }
  return longest;
}

}  // namespace kimi_k3::text
