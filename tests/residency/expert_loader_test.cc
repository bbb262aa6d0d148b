// Tests of how requested experts come into slots.
#include "residency/expert_loader.h"

#include <gtest/gtest.h>

#include <set>

#include "residency/planned_stream.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

class ExpertLoaderTest : public testing::Test {
 protected:
  ExpertLoaderTest() {
    while (checkpoint_.config().IsDense(layer_)) ++layer_;
  }
  void Make(size_t passing, size_t cached) {
    const ModelConfig& config = checkpoint_.config();
    const ExpertCacheShape shape = {config.layers, config.moe.experts, config.moe.experts_per_token,
                                    passing, cached};
    const PassSchedule schedule(checkpoint_);
    landing_ =
        MakeOwnedLanding({kBlockBytes, ExpertSlotBytes(schedule), ExpertCache(shape).slots(), {}});
    loader_ = std::make_unique<ExpertLoader>(checkpoint_, *landing_, shape);
  }
  // Lets up to `count` reads end well; returns how many there were.
  size_t Read(size_t count = ~size_t{0}) {
    size_t reads = 0;
    while (reads < count) {
      const auto read = loader_->Next(0);
      if (!read) break;
      --static_cast<Transfer*>(read->tag)->reads_left;
      ++reads;
    }
    return reads;
  }
  std::vector<int32_t> TakeAll(ExpertOrder order) {
    std::vector<int32_t> taken;
    while (loader_->left() > 0) {
      auto ready = loader_->FindReady(order);
      if (!ready) {
        if (Read() == 0) break;
        continue;
      }
      taken.push_back(loader_->expert(ready->position));
      loader_->Finish(*ready);
    }
    return taken;
  }

  const Checkpoint checkpoint_ = Checkpoint::Open(GoldenCheckpoint("many-experts"));
  size_t layer_ = 0;
  std::unique_ptr<Landing> landing_;
  std::unique_ptr<ExpertLoader> loader_;
};

TEST_F(ExpertLoaderTest, BringsEveryExpertOnceWithAnyNumberOfSlots) {
  const std::vector<int32_t> wanted = {0, 2, 3, 5, 8, 11};
  for (const size_t slots : {1U, 2U, 6U, 9U}) {
    for (const ExpertOrder order : {ExpertOrder::kArrival, ExpertOrder::kAscending}) {
      Make(slots, 0);
      loader_->Request(layer_, wanted);
      const std::vector<int32_t> taken = TakeAll(order);
      if (order == ExpertOrder::kAscending) {
        EXPECT_EQ(taken, wanted);
      }
      EXPECT_EQ(std::set<int32_t>(taken.begin(), taken.end()),
                std::set<int32_t>(wanted.begin(), wanted.end()));
      EXPECT_EQ(loader_->misses(), wanted.size());
      EXPECT_FALSE(loader_->has_reads());
    }
  }
}

TEST_F(ExpertLoaderTest, EveryDriveReadsTheExpertsItHolds) {
  const uint32_t shard = checkpoint_.Expert(layer_, 0).gate.weights.shard;
  std::vector<uint64_t> devices(checkpoint_.shards().size(), 1);
  devices.push_back(2);  // so that there are two drives, however few the shards
  Make(3, 0);
  const ExpertCacheShape shape = {checkpoint_.config().layers, checkpoint_.config().moe.experts,
                                  checkpoint_.config().moe.experts_per_token, 3, 0};
  const DriveMap drives(devices);
  ExpertLoader loader(checkpoint_, *landing_, shape, drives);
  loader.Request(layer_, std::vector<int32_t>{1, 4, 6});
  const size_t holds = drives.Of(shard);
  EXPECT_TRUE(loader.has_reads());
  EXPECT_TRUE(loader.has_reads(holds));
  EXPECT_FALSE(loader.has_reads(1 - holds));
  EXPECT_FALSE(loader.Next(1 - holds));
  while (const auto read = loader.Next(holds)) {
    EXPECT_EQ(drives.Of(read->shard), holds);
    --static_cast<Transfer*>(read->tag)->reads_left;
  }
  EXPECT_FALSE(loader.has_reads());
  for (int i = 0; i < 3; ++i) loader.Finish(*loader.FindReady(ExpertOrder::kAscending));
  EXPECT_EQ(loader.left(), 0U);
}

TEST_F(ExpertLoaderTest, TakesWhatArrivesFirst) {
  Make(3, 0);
  loader_->Request(layer_, std::vector<int32_t>{1, 4, 6});
  const auto first = loader_->Next(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(loader_->FindReady(ExpertOrder::kArrival));
  // All but the first end.
  Read();
  const auto ready = loader_->FindReady(ExpertOrder::kArrival);
  ASSERT_TRUE(ready);
  EXPECT_EQ(loader_->expert(ready->position), 4);
  EXPECT_FALSE(loader_->FindReady(ExpertOrder::kAscending));
}

TEST_F(ExpertLoaderTest, CountsHitsOnlyForWhatWasThereAtTheRequest) {
  Make(4, 0);
  loader_->Request(layer_, std::vector<int32_t>{1, 2, 3});
  TakeAll(ExpertOrder::kArrival);
  EXPECT_EQ(loader_->hits(), 0U);
  loader_->Request(layer_, std::vector<int32_t>{2, 3, 9});
  TakeAll(ExpertOrder::kArrival);
  EXPECT_EQ(loader_->hits(), 2U);
  EXPECT_EQ(loader_->misses(), 4U);
}

TEST_F(ExpertLoaderTest, AnAscendingVisitDrivesOutALaterHitWhereItMust) {
  Make(2, 0);
  loader_->Request(layer_, std::vector<int32_t>{7, 8});
  TakeAll(ExpertOrder::kArrival);
  loader_->Request(layer_, std::vector<int32_t>{1, 7, 8});
  EXPECT_EQ(TakeAll(ExpertOrder::kAscending), (std::vector<int32_t>{1, 7, 8}));
  EXPECT_EQ(loader_->hits(), 1U);
  EXPECT_EQ(loader_->misses(), 4U);
}

TEST_F(ExpertLoaderTest, GivingUpLeavesNothingHalfRead) {
  Make(4, 8);
  loader_->Request(layer_, std::vector<int32_t>{1, 2, 3, 4, 5});
  Read(2);
  loader_->GiveUp();
  EXPECT_EQ(loader_->left(), 0U);
  EXPECT_FALSE(loader_->has_reads());
  loader_->Request(layer_, std::vector<int32_t>{1, 2, 3, 4, 5});
  EXPECT_LE(loader_->hits(), 2U);
  EXPECT_EQ(TakeAll(ExpertOrder::kAscending).size(), 5U);
}

}  // namespace
}  // namespace kimi_k3
