// Tests of what is told of shards that are not whole (with sums: fetched_part_test.cc).
#include "checkpoint/unfetched_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(UnfetchedTensors, AWholeShardIsNotTalkedOf) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> folders = {folder.path()};
  const std::filesystem::path path = folder.path() / "s.safetensors";
  WriteFile(path, "12345678");
  UnfetchedTensors unfetched;
  const OpenFile file = OpenRegularFile(path);
  unfetched.BeginShard(path, file);
  unfetched.Take("w", 0, 8);
  unfetched.EndShard(file, false);
  EXPECT_FALSE(unfetched.TellHoles(folders, 1));
  EXPECT_FALSE(unfetched.TellUnfetched(folders));
}

TEST(UnfetchedTensors, HolesAreTalkedOfUnlessTheyAreMeant) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> folders = {folder.path()};
  const std::filesystem::path path = folder.path() / "s.safetensors";
  WriteFile(path, "x");
  std::filesystem::resize_file(path, 1 << 20);
  UnfetchedTensors unfetched;
  const OpenFile file = OpenRegularFile(path);
  unfetched.BeginShard(path, file);
  unfetched.EndShard(file, true);
  EXPECT_FALSE(unfetched.TellHoles(folders, 4));
  unfetched.EndShard(file, false);
  const auto told = unfetched.TellHoles(folders, 4);
  if (!told) GTEST_SKIP() << "this file system has no holes";
  EXPECT_THAT(*told,
              HasSubstr("1 of the 4 shards have holes, which read as zeros (s.safetensors)"));
}

}  // namespace
}  // namespace kimi_k3
