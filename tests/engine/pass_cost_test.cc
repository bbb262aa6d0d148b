// Tests of what passes cost by the number of their rows.
#include "engine/pass_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace kimi_k3 {
namespace {

TEST(PassCost, FindsWhatARowAdds) {
  for (const double share : {0.02, 0.2, 0.7}) {
    PassCost cost;
    std::mt19937 random(7);
    for (int i = 0; i < 200; ++i) {
      const size_t rows = 1 + random() % 6;
      cost.Saw(rows, 40 * (1 + share * static_cast<double>(rows - 1)));
    }
    EXPECT_NEAR(cost.RowShare(1), share, 0.02);
    EXPECT_NEAR(cost.RowShare(6), share / (1 + 5 * share), 0.02);
  }
}

TEST(PassCost, FollowsAMachineThatChanges) {
  PassCost cost;
  for (const double share : {0.1, 0.6, 0.05}) {
    for (int i = 0; i < 60; ++i) {
      cost.Saw(2, 1 + share);
      cost.Saw(5, 1 + 4 * share);
    }
    EXPECT_NEAR(cost.RowShare(1), share, 0.03);
  }
}

TEST(PassCost, KeepsWhatItKnowsWhilePassesHaveTheSameRows) {
  PassCost cost;
  for (int i = 0; i < 40; ++i) cost.Saw(i % 2 == 0 ? 1 : 4, i % 2 == 0 ? 1.0 : 2.5);
  const double known = cost.RowShare(1);
  for (int i = 0; i < 500; ++i) cost.Saw(1, 1.0 + (i % 3) * 0.01);
  EXPECT_NEAR(cost.RowShare(1), known, 0.1);
}

TEST(PassCost, TellsTheMedianOfTheLatestPasses) {
  PassCost cost;
  EXPECT_EQ(cost.MedianSeconds(), 0.0);
  for (const double seconds : {9.0, 2.0, 3.0}) cost.Saw(1, seconds);
  EXPECT_EQ(cost.MedianSeconds(), 3.0);
  for (int i = 0; i < 64; ++i) cost.Saw(32, i < 31 ? 50.0 : 40.0);
  EXPECT_EQ(cost.MedianSeconds(), 40.0);
  for (int i = 0; i < 33; ++i) cost.Saw(32, 10.0);
  EXPECT_EQ(cost.MedianSeconds(), 10.0);
}

TEST(PassCost, IsAShareWhateverItSees) {
  PassCost cost;
  std::mt19937 random(5);
  std::uniform_real_distribution<double> seconds(0, 3);
  for (int i = 0; i < 1000; ++i) {
    cost.Saw(1 + random() % 9, seconds(random) * (random() % 5 == 0 ? 0 : 1));
    EXPECT_GE(cost.RowShare(1), 0.0);
    EXPECT_LE(cost.RowShare(1), 1.0);
    EXPECT_LE(cost.RowShare(9), 1.0 / 9 + 1e-9);
  }
}

}  // namespace
}  // namespace kimi_k3
