// Tests of comparing predictions.
#include "cli/logits_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kimi_k3 {
namespace {

// Logits of these probabilities, with an offset that changes nothing.
std::vector<float> LogitsOf(const std::vector<double>& probabilities, double offset = 3) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + offset));
  return logits;
}

TEST(LogitsComparison, AddsUpTheBitsOfTheText) {
  LogitsComparison comparison;
  comparison.Add(LogitsOf({0.5, 0.25, 0.25}), 0);
  comparison.Add(LogitsOf({0.5, 0.25, 0.25}), 2);
  EXPECT_EQ(comparison.positions(), 2U);
  EXPECT_NEAR(comparison.bits(), 3, 1e-6);
  EXPECT_EQ(comparison.mean_divergence(), 0);
}

TEST(LogitsComparison, KnowsTheDivergenceFromTheExactRun) {
  LogitsComparison comparison;
  const std::vector<float> exact = LogitsOf({0.5, 0.25, 0.25});
  comparison.Add(LogitsOf({0.25, 0.5, 0.25}, -20), 1, exact);
  comparison.Add(exact, 0, exact);
  const double divergence = 0.5 * std::log(2) - 0.25 * std::log(2);
  EXPECT_NEAR(comparison.largest_divergence(), divergence, 1e-6);
  EXPECT_NEAR(comparison.mean_divergence(), divergence / 2, 1e-6);
  EXPECT_EQ(comparison.same_first_choice(), 0.5);
  EXPECT_NEAR(comparison.bits(), 2, 1e-5);
}

TEST(LogitsComparison, OfARunWithItselfFindsNothing) {
  LogitsComparison comparison;
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(std::sin(static_cast<float>(i)) * 50);
  comparison.Add(logits, 7, logits);
  EXPECT_EQ(comparison.mean_divergence(), 0);
  EXPECT_EQ(comparison.same_first_choice(), 1);
}

// Of two tokens that are equally likely the first counts, in both runs.
TEST(LogitsComparison, BreaksTiesByTheLowestToken) {
  LogitsComparison comparison;
  comparison.Add(LogitsOf({0.25, 0.25, 0.5}), 0, LogitsOf({0.4, 0.4, 0.2}));
  comparison.Add(LogitsOf({0.4, 0.4, 0.2}), 0, LogitsOf({0.5, 0.25, 0.25}));
  EXPECT_EQ(comparison.same_first_choice(), 0.5);
}

}  // namespace
}  // namespace kimi_k3
