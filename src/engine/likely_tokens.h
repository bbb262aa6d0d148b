// The probabilities behind a choice of token.
#pragma once

#include <span>
#include <vector>

#include "kimi_k3/scheduler.h"

namespace kimi_k3 {

// The natural logarithm of the sum of exp(logit): what turns logits into log probabilities.
// Logits: finite, at least one.
double LogSumExp(std::span<const float> logits);

// The `count` most likely tokens (ties: the lowest id first) in descending order.
std::vector<TokenProbability> LikelyTokens(std::span<const float> logits, double log_sum,
                                           size_t count);

}  // namespace kimi_k3
