// The probabilities behind a choice of token.
#include "engine/likely_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kimi_k3 {

double LogSumExp(std::span<const float> logits) {
  const double most = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

std::vector<TokenProbability> LikelyTokens(std::span<const float> logits, double log_sum,
                                           size_t count) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), TokenId{0});
  const auto more_likely = [&](TokenId a, TokenId b) {
    const float of_a = logits[static_cast<size_t>(a)];
    const float of_b = logits[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  const auto end = ids.begin() + static_cast<ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), more_likely);
  std::vector<TokenProbability> likely;
  for (auto id = ids.begin(); id != end; ++id) {
    const double logit = static_cast<double>(logits[static_cast<size_t>(*id)]);
    likely.push_back({.token = *id, .logprob = static_cast<float>(logit - log_sum)});
  }
  return likely;
}

}  // namespace kimi_k3
