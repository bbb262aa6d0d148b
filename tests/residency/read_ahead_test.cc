// Tests of the order in which tiles are read ahead.
#include "residency/read_ahead.h"

#include <gtest/gtest.h>

#include "residency/planned_stream.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

class ReadAheadTest : public testing::Test {
 protected:
  // As many reads of a drive as come without compute taking anything.
  static size_t ReadAll(ReadAhead& ahead, size_t drive = 0) {
    size_t reads = 0;
    while (const auto read = ahead.Next(drive)) {
      auto* transfer = static_cast<Transfer*>(read->tag);
      EXPECT_EQ(transfer->reads_left, 1U);
      transfer->reads_left = 0;
      heads_ += transfer->kind == Transfer::Kind::kHead ? 1 : 0;
      ++reads;
    }
    return reads;
  }
  // Compute takes every streamed tile of the pass in order.
  void TakePass(ReadAhead& ahead, bool with_head, size_t drives = 1) {
    ahead.BeginPass(with_head);
    for (size_t i = 0; i < schedule_.steps().size(); ++i) {
      const PassStep& step = schedule_.steps()[i];
      if (step.kind == StepKind::kExperts || (step.kind == StepKind::kHead && !with_head)) continue;
      ahead.Reached(i);
      for (size_t tile = 0; tile < step.tiles(); ++tile) {
        for (size_t drive = 0; drive < drives; ++drive) ReadAll(ahead, drive);
        const ReadAhead::AheadTile* found = ahead.FindTile(i, tile);
        ASSERT_NE(found, nullptr);
        EXPECT_TRUE(found->transfer.done());
        ahead.ReleaseOldestTile();
      }
    }
  }
  size_t TilesOf(size_t layer) const {
    size_t tiles = 0;
    for (const PassStep& step : schedule_.steps()) {
      if (step.kind == StepKind::kMatrix && step.layer == layer) tiles += step.tiles();
    }
    return tiles;
  }
  std::unique_ptr<Landing> Ring(uint64_t bytes) const {
    return MakeOwnedLanding({bytes, 0, 0, {}});
  }

  void SetUp() override { heads_ = 0; }
  static inline size_t heads_ = 0;
  const Checkpoint checkpoint_ = Checkpoint::Open(GoldenCheckpoint("k3"));
  const PassSchedule schedule_{checkpoint_, 2000};
  // The shards lie on two drives in turns.
  const DriveMap two_drives_{{1, 2, 1}};
};

TEST_F(ReadAheadTest, FillsTheRingAndNoMore) {
  const auto landing = Ring(40 * kBlockBytes);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt);
  const size_t reads = ReadAll(ahead);
  EXPECT_GE(reads, 10U);
  EXPECT_LE(reads, 40U);
}

TEST_F(ReadAheadTest, StopsBeforeAHeadThatMayNotCome) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt);
  ReadAll(ahead);
  EXPECT_EQ(heads_, 0U);
  ahead.BeginPass(true);
  ReadAll(ahead);
  EXPECT_EQ(heads_, schedule_.steps().back().tiles());
}

TEST_F(ReadAheadTest, GoesAroundTheCorner) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt);
  for (const bool head : {true, false, true, false, false, true}) TakePass(ahead, head);
  EXPECT_GT(ReadAll(ahead) + 1, 0U);
  EXPECT_NE(ahead.FindTile(0, 0), nullptr);
  EXPECT_EQ(heads_, 3 * schedule_.steps().back().tiles());
}

TEST_F(ReadAheadTest, KeepsToItsLimitOfLayers) {
  const auto landing = Ring(uint64_t{64} << 20);
  for (const size_t limit : {0U, 2U}) {
    ReadAhead ahead(schedule_, *landing, {}, limit);
    size_t want = 0;
    for (size_t layer = 0; layer <= limit; ++layer) want += TilesOf(layer);
    EXPECT_EQ(ReadAll(ahead), want);
    ahead.Restart();
  }
}

TEST_F(ReadAheadTest, NextBeforeKeepsToThePassAndTheStepsBefore) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt);
  EXPECT_FALSE(ahead.NextBefore(2, 0));  // no pass has begun
  ahead.BeginPass(true);
  const size_t tiles = schedule_.steps()[0].tiles() + schedule_.steps()[1].tiles();
  for (size_t i = 0; i < tiles; ++i) EXPECT_TRUE(ahead.NextBefore(2, 0)) << i;
  EXPECT_FALSE(ahead.NextBefore(2, 0));
  EXPECT_TRUE(ahead.Next(0));
  EXPECT_FALSE(ahead.NextBefore(2, 0));
}

TEST_F(ReadAheadTest, StartsFromTheFirstTileAfterARestart) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt);
  ahead.BeginPass(true);
  ReadAll(ahead);
  ahead.ReleaseOldestTile();
  EXPECT_EQ(ahead.FindTile(0, 0), nullptr);
  ahead.Restart();
  TakePass(ahead, true);
}

TEST_F(ReadAheadTest, ReadsAPinOnceAndCountsItsWholeRows) {
  LandingShape shape = {uint64_t{64} << 20, 0, 0, {}};
  std::vector<bool> pinned(schedule_.steps().size());
  pinned[0] = true;
  shape.pin_bytes = {PinBytes(schedule_.steps()[0])};
  const auto landing = MakeOwnedLanding(shape);
  ReadAhead ahead(schedule_, *landing, pinned, std::nullopt);
  EXPECT_TRUE(ahead.pinned(0));
  EXPECT_FALSE(ahead.pinned(1));
  EXPECT_EQ(ahead.FindPinChunk(0, 0), nullptr);
  ReadAll(ahead);
  for (size_t chunk = 0; chunk < ahead.PinChunks(0); ++chunk) {
    EXPECT_TRUE(ahead.FindPinChunk(0, chunk)->done());
  }
  EXPECT_EQ(ahead.PinRows(0, 0), 0U);
  EXPECT_EQ(ahead.PinRows(0, ahead.PinChunks(0)), schedule_.steps()[0].location.rows);
  ahead.SetPinLoaded(0);
  EXPECT_TRUE(ahead.PinLoaded(0));
  ahead.Restart();
  EXPECT_TRUE(ahead.PinLoaded(0));
}

TEST_F(ReadAheadTest, ADriveThatIsNotReadHoldsUpNoOther) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt, two_drives_);
  std::vector<ByteRange> tiles[2];
  for (const PassStep& step : schedule_.steps()) {
    if (step.kind != StepKind::kMatrix) continue;
    for (size_t tile = 0; tile < step.tiles(); ++tile) {
      const ByteRange range = step.RangeOf(tile);
      tiles[two_drives_.Of(range.shard)].push_back(BlocksOf(range));
    }
  }
  ASSERT_GT(tiles[0].size(), 0U);
  ASSERT_GT(tiles[1].size(), 0U);
  for (const ByteRange& want : tiles[1]) {
    const auto read = ahead.Next(1);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->shard, want.shard);
    EXPECT_EQ(read->offset, want.offset);
  }
  EXPECT_FALSE(ahead.Next(1));
  EXPECT_TRUE(ahead.TakeNews());  // the first drive's tiles have places by now
  EXPECT_FALSE(ahead.TakeNews());
  ASSERT_NE(ahead.FindTile(0, 0), nullptr);
  EXPECT_FALSE(ahead.FindTile(0, 0)->transfer.done());
  EXPECT_EQ(ReadAll(ahead, 0), tiles[0].size());
  EXPECT_FALSE(ahead.TakeNews());
  EXPECT_TRUE(ahead.FindTile(0, 0)->transfer.done());
}

TEST_F(ReadAheadTest, ComputeTakesTheWalkInOrderWhateverTheDrives) {
  for (const uint64_t blocks : {20U, 100U, 16384U}) {
    const auto landing = Ring(blocks * kBlockBytes);
    ReadAhead ahead(schedule_, *landing, {}, std::nullopt, two_drives_);
    for (const bool head : {true, false, true}) TakePass(ahead, head, 2);
  }
}

TEST_F(ReadAheadTest, NextBeforeKeepsToThePassOnEveryDrive) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt, two_drives_);
  ahead.BeginPass(true);
  size_t first = 0;  // step on the second drive
  while (schedule_.steps()[first].kind != StepKind::kMatrix ||
         two_drives_.Of(schedule_.steps()[first].location.range.shard) == 0) {
    ++first;
  }
  EXPECT_FALSE(ahead.NextBefore(first, 1));
  EXPECT_TRUE(ahead.NextBefore(first + 1, 1));
  EXPECT_TRUE(ahead.NextBefore(1, 0));
  ReadAll(ahead, 1);
  EXPECT_FALSE(ahead.NextBefore(0, 0));
  EXPECT_TRUE(ahead.NextBefore(first, 0));
}

TEST_F(ReadAheadTest, ForgetsWhatWaitsForADriveOnRestart) {
  const auto landing = Ring(uint64_t{64} << 20);
  ReadAhead ahead(schedule_, *landing, {}, std::nullopt, two_drives_);
  ahead.BeginPass(true);
  ReadAll(ahead, 1);  // all that the first drive holds waits
  ahead.Restart();
  EXPECT_EQ(ahead.FindTile(0, 0), nullptr);
  TakePass(ahead, true, 2);
}

TEST_F(ReadAheadTest, ReadsThePinsOfEveryDriveOnce) {
  LandingShape shape = {uint64_t{64} << 20, 0, 0, {}};
  std::vector<bool> pinned(schedule_.steps().size());
  size_t chunks[2] = {0, 0};
  for (size_t i = 0; i < pinned.size(); ++i) {
    const PassStep& step = schedule_.steps()[i];
    if (step.kind != StepKind::kMatrix) continue;
    pinned[i] = true;
    shape.pin_bytes.push_back(PinBytes(step));
    ++chunks[two_drives_.Of(step.location.range.shard)];  // none is as large as a chunk
  }
  const auto landing = MakeOwnedLanding(shape);
  ReadAhead ahead(schedule_, *landing, pinned, std::nullopt, two_drives_);
  EXPECT_EQ(ReadAll(ahead, 1), chunks[1]);
  ahead.Restart();  // those of the first drive still wait
  EXPECT_EQ(ReadAll(ahead, 1), 0U);
  EXPECT_EQ(ReadAll(ahead, 0), chunks[0]);
  ahead.BeginPass(false);
  EXPECT_EQ(ReadAll(ahead, 0) + ReadAll(ahead, 1), 0U);
  for (size_t i = 0; i < pinned.size(); ++i) {
    if (pinned[i]) {
      EXPECT_TRUE(ahead.FindPinChunk(i, 0)->done());
    }
  }
}

}  // namespace
}  // namespace kimi_k3
