// Tests of where reads land.
#include "residency/landing.h"

#include <gtest/gtest.h>

#include <cstring>

#include "residency/reader.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kB = kBlockBytes;

TEST(OwnedLanding, PlacesNeverOverlap) {
  const auto landing = MakeOwnedLanding({4 * kB, 2 * kB, 3, {kB, 2 * kB}});
  EXPECT_EQ(landing->resident_bytes(), 4 * kB + 6 * kB + 3 * kB);
  std::vector<std::byte*> places;
  const auto fill = [&](std::byte* place, uint64_t bytes) {
    ASSERT_NE(place, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % kB, 0U);
    std::memset(place, static_cast<int>(places.size() + 1), bytes);
    places.push_back(place);
  };
  fill(landing->PlaceTile({0, 0, 3 * kB}), 3 * kB);
  fill(landing->PlaceTile({0, 0, kB}), kB);
  EXPECT_EQ(landing->PlaceTile({0, 0, kB}), nullptr);
  for (size_t slot = 0; slot < 3; ++slot) {
    fill(landing->PlaceInSlot(slot, 0, {0, 0, kB}), kB);
    fill(landing->PlaceInSlot(slot, kB, {0, 0, kB}), kB);
  }
  fill(landing->PlacePin(0, {0, 0, kB}), kB);
  fill(landing->PlacePin(1, {0, 0, 2 * kB}), 2 * kB);
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(places[i][0], static_cast<std::byte>(i + 1));
  }
  landing->ReleaseOldestTile();
  EXPECT_EQ(landing->PlaceTile({0, 0, 3 * kB}), places[0]);
}

TEST(MappedLanding, PlacesAreThoseOfTheFileAndTheRingCounts) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  std::deque<GuardedMap> maps;
  for (const Shard& shard : checkpoint.shards()) maps.emplace_back(shard.path, shard.bytes);
  for (const bool drop : {false, true}) {
    const auto landing = MakeMappedLanding({4 * kB, 2 * kB, 3, {kB}}, maps, drop);
    EXPECT_EQ(landing->PlaceTile({1, kB, 3 * kB}), maps[1].data() + kB);
    EXPECT_EQ(landing->PlaceTile({0, 0, 2 * kB}), nullptr);
    landing->ReleaseOldestTile();
    EXPECT_EQ(landing->PlaceTile({0, 0, 2 * kB}), maps[0].data());
    EXPECT_EQ(landing->PlaceInSlot(2, 0, {0, 2 * kB, kB}), maps[0].data() + 2 * kB);
    landing->ReleaseSlot(2);
    EXPECT_EQ(landing->PlacePin(0, {0, 3 * kB, kB}), maps[0].data() + 3 * kB);
    landing->CheckIntact(0);
  }
}

}  // namespace
}  // namespace kimi_k3
