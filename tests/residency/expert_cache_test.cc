// Tests of the expert cache's bookkeeping.
#include "residency/expert_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace kimi_k3 {
namespace {

// Runs a request as the loader does and returns the hits.
size_t Use(ExpertCache& cache, size_t layer, const std::vector<size_t>& experts) {
  std::vector<size_t> slots;
  std::vector<size_t> missing;
  for (const size_t expert : experts) {
    if (const auto slot = cache.Find(layer, expert)) {
      cache.Claim(*slot);
      slots.push_back(*slot);
    } else {
      missing.push_back(expert);
    }
  }
  for (const size_t expert : missing) {
    const auto slot = cache.Take(layer, expert);
    if (slot) slots.push_back(*slot);
  }
  for (const size_t slot : slots) cache.Release(slot);
  return experts.size() - missing.size();
}

TEST(ExpertCache, GivesSharesToEvenlySpreadLayersWhenThereAreFewSlots) {
  const ExpertCache cache({.moe_layers = 10,
                           .experts = 64,
                           .experts_per_token = 4,
                           .passing_slots = 3,
                           .cached_slots = 13});
  EXPECT_EQ(cache.slots(), 16U);
  size_t shares = 0;
  for (size_t layer = 0; layer < 10; ++layer) {
    if (cache.share(layer) == 0) continue;
    ++shares;
    EXPECT_GE(cache.share(layer), 4U);
  }
  EXPECT_EQ(shares, 3U);
}

TEST(ExpertCache, GivesEveryLayerAnEqualShareWhenThereAreMany) {
  const ExpertCache cache({.moe_layers = 10,
                           .experts = 64,
                           .experts_per_token = 4,
                           .passing_slots = 3,
                           .cached_slots = 95});
  for (size_t layer = 0; layer < 10; ++layer) {
    EXPECT_GE(cache.share(layer), 9U);
    EXPECT_LE(cache.share(layer), 10U);
  }
  EXPECT_EQ(cache.slots(), 98U);
}

TEST(ExpertCache, NeverHasMoreSlotsThanExperts) {
  const ExpertCache cache({.moe_layers = 3,
                           .experts = 5,
                           .experts_per_token = 2,
                           .passing_slots = 1,
                           .cached_slots = 1000});
  EXPECT_EQ(cache.slots(), 16U);
  for (size_t layer = 0; layer < 3; ++layer) EXPECT_EQ(cache.share(layer), 5U);
}

TEST(ExpertCache, WorksWithoutMoeLayersOrCachedSlots) {
  EXPECT_EQ(ExpertCache({.moe_layers = 0, .passing_slots = 1}).slots(), 1U);
  ExpertCache cache({.moe_layers = 2, .experts = 8, .experts_per_token = 2, .passing_slots = 2});
  EXPECT_EQ(cache.slots(), 2U);
  EXPECT_TRUE(cache.Take(0, 1));
  EXPECT_TRUE(cache.Take(0, 2));
  EXPECT_FALSE(cache.Take(0, 3));
}

TEST(ExpertCache, KeepsWhatALayerUsedLastWhateverOtherLayersDo) {
  ExpertCache cache({.moe_layers = 4,
                     .experts = 100,
                     .experts_per_token = 4,
                     .passing_slots = 4,
                     .cached_slots = 16});
  for (size_t layer = 0; layer < 4; ++layer) Use(cache, layer, {1, 2, 3, 4});
  for (size_t layer = 0; layer < 4; ++layer) EXPECT_EQ(Use(cache, layer, {3, 4, 5, 6}), 2U);
  for (size_t layer = 0; layer < 4; ++layer) EXPECT_EQ(Use(cache, layer, {3, 4, 5, 6}), 4U);
}

TEST(ExpertCache, HoldsEverythingWhereThereIsRoomForEverything) {
  ExpertCache cache({.moe_layers = 3,
                     .experts = 20,
                     .experts_per_token = 4,
                     .passing_slots = 4,
                     .cached_slots = 60});
  std::mt19937 random(2);
  std::set<std::pair<size_t, size_t>> seen;
  for (int i = 0; i < 600; ++i) {
    const size_t layer = static_cast<size_t>(i) % 3;
    const size_t expert = random() % 20;
    EXPECT_EQ(Use(cache, layer, {expert}) == 1, !seen.insert({layer, expert}).second);
  }
}

TEST(ExpertCache, NeverGivesAwayAClaimedSlot) {
  ExpertCache cache({.moe_layers = 2,
                     .experts = 30,
                     .experts_per_token = 2,
                     .passing_slots = 1,
                     .cached_slots = 2});
  std::set<size_t> taken;
  for (size_t expert = 0; expert < 10; ++expert) {
    const auto slot = cache.Take(1, expert);
    if (!slot) continue;
    EXPECT_TRUE(taken.insert(*slot).second);
    EXPECT_TRUE(cache.claimed(*slot));
  }
  EXPECT_GE(taken.size(), 1U);
  cache.Empty(*taken.begin());
  EXPECT_FALSE(cache.claimed(*taken.begin()));
  EXPECT_TRUE(cache.Take(1, 20));
}

TEST(ExpertCache, ForgetsWhatGaveWay) {
  ExpertCache cache({.moe_layers = 1, .experts = 8, .experts_per_token = 1, .passing_slots = 1});
  const auto slot = cache.Take(0, 3);
  EXPECT_EQ(cache.Find(0, 3), slot);
  cache.Release(*slot);
  EXPECT_EQ(cache.Take(0, 4), slot);
  EXPECT_EQ(cache.Find(0, 3), std::nullopt);
  cache.Empty(*slot);
  EXPECT_EQ(cache.Find(0, 4), std::nullopt);
}

}  // namespace
}  // namespace kimi_k3
