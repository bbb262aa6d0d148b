// Tests of the pass schedule and of the check that compute keeps to it.
#include "residency/pass_schedule.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <utility>

#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

class PassScheduleTest : public testing::TestWithParam<const char*> {
 protected:
  Checkpoint checkpoint_ = Checkpoint::Open(GoldenCheckpoint(GetParam()));
};

TEST_P(PassScheduleTest, HoldsEveryStreamedMatrixOnceAndTheHeadLast) {
  const PassSchedule schedule(checkpoint_);
  std::set<std::pair<Role, size_t>> seen;
  uint64_t bytes = 0;
  for (const PassStep& step : schedule.steps()) {
    EXPECT_TRUE(seen.insert({step.role, step.layer}).second);
    if (step.kind == StepKind::kMatrix) bytes += step.location.range.bytes;
  }
  EXPECT_EQ(schedule.steps().back().kind, StepKind::kHead);
  EXPECT_EQ(schedule.trunk_bytes(), bytes);
  EXPECT_EQ(schedule.head_bytes(), checkpoint_.Get(Role::kHead).range.bytes);
  size_t wanted = 1;
  for (size_t layer = 0; layer < checkpoint_.config().layers; ++layer) {
    wanted += checkpoint_.config().IsDense(layer) ? 0 : 1;
    for (const TensorSpec& spec : TensorSpecs(checkpoint_.config(), layer)) {
      if (spec.kind == TensorKind::kMatrix) {
        EXPECT_TRUE(seen.contains({spec.role, layer})) << RoleName(spec.role);
        ++wanted;
      }
    }
  }
  EXPECT_EQ(schedule.steps().size(), wanted);
}

TEST_P(PassScheduleTest, TilesCoverEveryMatrixInWholeGranules) {
  for (const uint64_t tile_bytes : {1U, 300U, 1000U, 5000U, 1U << 21}) {
    const PassSchedule schedule(checkpoint_, tile_bytes);
    for (const PassStep& step : schedule.steps()) {
      if (step.kind == StepKind::kExperts) continue;
      uint64_t end = step.location.range.offset;
      size_t rows = 0;
      for (size_t tile = 0; tile < step.tiles(); ++tile) {
        const ByteRange range = step.RangeOf(tile);
        EXPECT_EQ(range.offset, end);
        EXPECT_EQ(range.bytes, step.RowsOf(tile) * step.row_bytes());
        EXPECT_EQ(step.FirstRow(tile), rows);
        EXPECT_EQ(step.FirstRow(tile) % step.row_granule, 0U);
        EXPECT_LE(range.bytes, schedule.largest_tile_bytes());
        EXPECT_TRUE(step.RowsOf(tile) <= step.row_granule || range.bytes <= tile_bytes);
        end += range.bytes;
        rows += step.RowsOf(tile);
      }
      EXPECT_EQ(end, step.location.range.offset + step.location.range.bytes);
      EXPECT_EQ(rows, step.location.rows);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, PassScheduleTest,
                         testing::Values("k3", "kimi-linear", "unaligned", "odd-shapes", "all-mla",
                                         "top1-sparse-layers"),
                         [](const auto& instance) { return TestName(instance.param); });

class WalkTest : public testing::Test {
 protected:
  void AdvanceTo(StepKind kind) {
    while (schedule_.steps()[walk_.next()].kind != kind) walk_.Advance();
  }
  MatrixId Due() const {
    const PassStep& step = schedule_.steps()[walk_.next()];
    return {step.role, step.layer};
  }
  size_t experts() const { return checkpoint_.config().moe.experts; }

  Checkpoint checkpoint_ = Checkpoint::Open(GoldenCheckpoint("k3"));
  PassSchedule schedule_{checkpoint_};
  Walk walk_{schedule_};
};

TEST_F(WalkTest, RefusesEverythingBeforeAPassBegins) {
  EXPECT_THROW(walk_.ExpectMatrix({schedule_.steps()[0].role, 0}), std::logic_error);
  EXPECT_THROW(walk_.ExpectRequest(0, {}, experts()), std::logic_error);
}

TEST_F(WalkTest, AcceptsOnlyTheMatrixThatIsDue) {
  walk_.Begin(true);
  const MatrixId first = Due();
  EXPECT_EQ(walk_.ExpectMatrix(first), 0U);
  EXPECT_THROW(walk_.ExpectMatrix({first.role, 1}), std::logic_error);
  EXPECT_THROW(walk_.ExpectMatrix({Role::kHead, 0}), std::logic_error);
  walk_.Advance();
  EXPECT_THROW(walk_.ExpectMatrix(first), std::logic_error);
  EXPECT_EQ(walk_.ExpectMatrix(Due()), 1U);
}

TEST_F(WalkTest, RefusesTheHeadOfAPassWithoutOne) {
  walk_.Begin(false);
  while (!walk_.finished()) walk_.Advance();
  EXPECT_THROW(walk_.ExpectMatrix({Role::kHead, 0}), std::logic_error);
  walk_.Begin(true);
  AdvanceTo(StepKind::kHead);
  EXPECT_FALSE(walk_.finished());
  walk_.ExpectMatrix({Role::kHead, 0});
  walk_.Advance();
  EXPECT_TRUE(walk_.finished());
}

TEST_F(WalkTest, WantsExpertsRequestedOnceInTheirLayerBeforeTheirVisit) {
  walk_.Begin(true);
  AdvanceTo(StepKind::kExperts);
  const size_t layer = Due().layer;
  EXPECT_THROW(walk_.ExpectExperts(layer), std::logic_error);
  EXPECT_THROW(walk_.ExpectRequest(layer + 1, {}, experts()), std::logic_error);
  const std::vector<int32_t> wanted = {0, 2};
  walk_.ExpectRequest(layer, wanted, experts());
  EXPECT_THROW(walk_.ExpectRequest(layer, wanted, experts()), std::logic_error);
  EXPECT_THROW(walk_.ExpectMatrix({Role::kExpertGate, layer}), std::logic_error);
  EXPECT_EQ(walk_.ExpectExperts(layer), walk_.next());
  walk_.Advance();
  EXPECT_THROW(walk_.ExpectRequest(layer, wanted, experts()), std::logic_error);
}

TEST_F(WalkTest, RefusesExpertsThatAreNotAscendingDistinctAndThere) {
  walk_.Begin(true);
  AdvanceTo(StepKind::kExperts);
  const size_t layer = Due().layer;
  for (const std::vector<int32_t>& wrong :
       {std::vector<int32_t>{1, 1}, {2, 1}, {-1}, {static_cast<int32_t>(experts())}}) {
    EXPECT_THROW(walk_.ExpectRequest(layer, wrong, experts()), std::logic_error);
  }
  walk_.ExpectRequest(layer, std::vector<int32_t>{0, 1}, experts());
}

}  // namespace
}  // namespace kimi_k3
