// Tests of what an index promises.
#include "checkpoint/shard_promises.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/model_config.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;

constexpr std::string_view kNorm = "language_model.model.norm.weight";

TEST(ShardPromises, NameTheShardOfEveryTensorInAnyNumbering) {
  const CheckpointFixture fixture;
  const TensorSlots slots(LoadModelConfig(fixture.dir()));
  ShardPromises promises(slots);
  EXPECT_FALSE(promises.indexed());
  EXPECT_EQ(promises.OfSlot(0), ShardPromises::kNoShard);
  NamePrefix prefix(fixture.dir().string());
  ProblemList problems;
  promises.Read(fixture.IndexPath(), prefix, problems);
  EXPECT_TRUE(problems.empty()) << problems.Text();
  EXPECT_TRUE(promises.indexed());
  ASSERT_EQ(promises.shard_names().size(), 3U);
  const size_t slot = slots.Find(kNorm)->slot;
  const std::string expected = fixture.ShardOf(std::string(kNorm)).filename();
  EXPECT_EQ(promises.shard_names()[promises.OfSlot(slot)], expected);
  ASSERT_FALSE(promises.strangers().empty());  // the vision tensors
  const auto& [stranger, shard] = *promises.strangers().begin();
  const std::string of_stranger = promises.shard_names()[shard];
  promises.Reorder({2, 0, 1});
  EXPECT_EQ(promises.shard_names()[promises.OfSlot(slot)], expected);
  EXPECT_EQ(promises.shard_names()[promises.OfStranger(stranger)], of_stranger);
  EXPECT_EQ(promises.OfStranger("nobody"), ShardPromises::kNoShard);
  EXPECT_TRUE(promises.Names(expected));
  EXPECT_FALSE(promises.Names("other.safetensors"));
}

TEST(ShardPromises, TellWhichShardsAreNeeded) {
  const CheckpointFixture fixture;
  const TensorSlots slots(LoadModelConfig(fixture.dir()));
  ShardPromises promises(slots);
  NamePrefix prefix("m");
  ProblemList problems;
  promises.Read(fixture.IndexPath(), prefix, problems);
  const size_t slot = slots.Find(kNorm)->slot;
  std::vector<bool> expected(3, false);
  expected[promises.OfSlot(slot)] = true;
  EXPECT_EQ(promises.NeededShards([&](size_t wanted) { return wanted == slot; }), expected);
  EXPECT_THAT(promises.NeededShards([](size_t) { return true; }), ElementsAre(true, true, true));
}

}  // namespace
}  // namespace kimi_k3
