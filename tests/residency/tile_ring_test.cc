// Tests of the ring of tiles.
#include "residency/tile_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <utility>

namespace kimi_k3 {
namespace {

TEST(TileRing, TakesWhatFitsAndNoMore) {
  TileRing ring(100);
  EXPECT_EQ(ring.Take(60), 0U);
  EXPECT_EQ(ring.Take(40), 60U);
  EXPECT_EQ(ring.Take(1), std::nullopt);
  ring.ReleaseOldest();
  EXPECT_EQ(ring.Take(50), 0U);
  EXPECT_EQ(ring.Take(11), std::nullopt);
  EXPECT_EQ(ring.Take(10), 50U);
  EXPECT_EQ(ring.Take(1), std::nullopt);
}

TEST(TileRing, StartsAtTheBeginningWhenEmpty) {
  TileRing ring(100);
  ring.Take(70);
  ring.ReleaseOldest();
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.Take(100), 0U);
}

TEST(TileRing, RefusesAPieceThatIsLargerThanItself) {
  TileRing ring(100);
  EXPECT_EQ(ring.Take(101), std::nullopt);
}

TEST(TileRing, KeepsToItsBeginningWhileLittleIsInIt) {
  TileRing ring(100);
  ring.Take(10);
  for (uint64_t i = 1; i < 20; ++i) {
    EXPECT_EQ(ring.Take(10), i % 2 * 10);
    ring.ReleaseOldest();
  }
}

TEST(TileRing, UsesAllOfItselfWhenItFills) {
  TileRing ring(100);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(ring.Take(10), i * 10);
  EXPECT_EQ(ring.Take(1), std::nullopt);
  for (int i = 0; i < 9; ++i) ring.ReleaseOldest();
  EXPECT_EQ(ring.Take(10), 0U);
}

TEST(TileRing, PiecesNeverOverlapAndAlwaysLieInside) {
  std::mt19937 random(1);
  for (const uint64_t bytes : {7U, 64U, 1000U}) {
    TileRing ring(bytes);
    std::deque<std::pair<uint64_t, uint64_t>> live;
    for (int step = 0; step < 20000; ++step) {
      const uint64_t size = 1 + random() % (bytes / 2);
      const auto begin = ring.Take(size);
      if (!begin) {
        ASSERT_FALSE(live.empty());
        live.pop_front();
        ring.ReleaseOldest();
        continue;
      }
      ASSERT_LE(*begin + size, bytes);
      for (const auto& [other, end] : live) {
        ASSERT_TRUE(*begin + size <= other || end <= *begin);
      }
      live.emplace_back(*begin, *begin + size);
    }
  }
}

}  // namespace
}  // namespace kimi_k3
