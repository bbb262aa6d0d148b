// Tests of which shards lie on which drive.
#include "residency/drive_map.h"

#include <gtest/gtest.h>

#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

TEST(DriveMap, OneDriveHoldsAllWhereNothingIsKnown) {
  const DriveMap map;
  EXPECT_EQ(map.drives(), 1U);
  EXPECT_EQ(map.Of(7), 0U);
}

TEST(DriveMap, NumbersDevicesInTheOrderOfTheShards) {
  const DriveMap map({70, 3, 70, 9, 3});
  EXPECT_EQ(map.drives(), 3U);
  const size_t want[] = {0, 1, 0, 2, 1};
  for (uint32_t shard = 0; shard < std::size(want); ++shard) EXPECT_EQ(map.Of(shard), want[shard]);
}

TEST(DriveMap, ManyDevicesShareNumbers) {
  std::vector<uint64_t> devices;
  for (uint64_t i = 0; i < 20; ++i) devices.push_back(100 + i);
  const DriveMap map(devices);
  EXPECT_EQ(map.drives(), DriveMap::kMostDrives);
  for (uint32_t shard = 0; shard < 20; ++shard) EXPECT_LT(map.Of(shard), map.drives());
}

TEST(DriveMap, AsksForTheDeviceOfEveryShard) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  uint64_t asked = 0;
  const DriveMap map = FindDrives(checkpoint, [&](const std::filesystem::path& path) {
    EXPECT_EQ(path, checkpoint.shards()[asked].path);
    return asked++ % 2;
  });
  EXPECT_EQ(asked, checkpoint.shards().size());
  EXPECT_EQ(map.drives(), 2U);
  EXPECT_EQ(FindDrives(checkpoint).drives(), 1U);
}

TEST(DeviceOf, FollowsLinks) {
  const ScratchFolder scratch;
  const std::filesystem::path file = GoldenCheckpoint("k3") / "config.json";
  std::filesystem::create_symlink(file, scratch.path() / "link");
  EXPECT_NE(DeviceOf(file), 0U);
  EXPECT_EQ(DeviceOf(scratch.path() / "link"), DeviceOf(file));
  std::filesystem::create_symlink("/dev/shm", scratch.path() / "memory");
  EXPECT_EQ(DeviceOf(scratch.path() / "memory"), DeviceOf("/dev/shm"));
  EXPECT_NE(DeviceOf("/proc"), DeviceOf(file));
  EXPECT_EQ(DeviceOf(scratch.path() / "absent"), 0U);
}

}  // namespace
}  // namespace kimi_k3
