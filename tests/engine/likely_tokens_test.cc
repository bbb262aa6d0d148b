// Probabilities from logits.
#include "engine/likely_tokens.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kimi_k3 {
namespace {

TEST(LikelyTokens, ProbabilitiesSumToOne) {
  const std::vector<float> logits = {1.0F, -2.0F, 3.5F, 0.0F};
  const double log_sum = LogSumExp(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - log_sum);
  EXPECT_NEAR(sum, 1.0, 1e-12);
}

TEST(LikelyTokens, LargeLogitsDoNotOverflow) {
  EXPECT_NEAR(LogSumExp(std::vector<float>{3e38F, 0.0F}), 3e38, 1e32);
  EXPECT_NEAR(LogSumExp(std::vector<float>{-1000.0F, -1000.0F}), -1000 + std::log(2.0), 1e-9);
}

TEST(LikelyTokens, ComeInDescendingOrderAndTiesByTheirId) {
  const std::vector<float> logits = {0.0F, 2.0F, 1.0F, 2.0F};
  const auto likely = LikelyTokens(logits, LogSumExp(logits), 3);
  ASSERT_EQ(likely.size(), 3U);
  EXPECT_EQ(likely[0].token, 1);
  EXPECT_EQ(likely[1].token, 3);
  EXPECT_EQ(likely[2].token, 2);
  EXPECT_FLOAT_EQ(likely[0].logprob, likely[1].logprob);
}

TEST(LikelyTokens, MoreThanThereAreIsAllOfThem) {
  const std::vector<float> logits = {0.0F, 1.0F};
  EXPECT_EQ(LikelyTokens(logits, LogSumExp(logits), 20).size(), 2U);
  EXPECT_TRUE(LikelyTokens(logits, LogSumExp(logits), 0).empty());
}

}  // namespace
}  // namespace kimi_k3
