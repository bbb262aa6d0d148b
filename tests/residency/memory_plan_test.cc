// Tests of the memory plan.
#include "residency/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"
#include "residency/planned_stream.h"
#include "residency/stream_factory.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

class MemoryPlanTest : public testing::Test {
 protected:
  PlanRequest Request(uint64_t budget) const {
    return {.budget_bytes = budget,
            .process_bytes = 1000000,
            .context = 100,
            .sequences = 2,
            .sequence_bytes = 50000,
            .chunk_rows = 40,
            .logit_rows = 1,
            .activation_bytes = [](size_t rows) { return 2000 + rows * 3000; },
            .expert_cache_bytes = std::nullopt};
  }
  MemoryPlan Plan(uint64_t budget) const { return MakeMemoryPlan(checkpoint_, Request(budget)); }
  uint64_t Smallest() const {
    try {
      Plan(1);
      return 0;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBudget);
    }
    return Plan(1000000000).smallest_bytes;
  }
  size_t Pins(const MemoryPlan& plan) const {
    return static_cast<size_t>(
        std::count(plan.stream.pinned.begin(), plan.stream.pinned.end(), true));
  }

  const Checkpoint checkpoint_ = Checkpoint::Open(GoldenCheckpoint("many-experts"));
  const PassSchedule schedule_{checkpoint_};
};

TEST_F(MemoryPlanTest, RefusesTheBudgetBelowTheSmallestAndNamesIt) {
  const uint64_t smallest = Smallest();
  EXPECT_EQ(Plan(smallest).total_bytes, smallest);
  try {
    Plan(smallest - 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBudget);
    EXPECT_THAT(error.what(),
                testing::HasSubstr(fmt::format("--memory {}M", smallest / 1000000 + 2)));
  }
}

TEST_F(MemoryPlanTest, NeverGoesBeyondTheBudgetAndAddsUp) {
  const uint64_t smallest = Smallest();
  for (uint64_t budget = smallest; budget < smallest + 3000000; budget += 7001) {
    const MemoryPlan plan = Plan(budget);
    EXPECT_LE(plan.total_bytes, budget);
    const uint64_t sum =
        std::accumulate(plan.items.begin(), plan.items.end(), uint64_t{0},
                        [](uint64_t s, const PlanItem& item) { return s + item.bytes; });
    EXPECT_EQ(sum, plan.total_bytes);
    EXPECT_EQ(plan.smallest_bytes, smallest);
  }
}

TEST_F(MemoryPlanTest, SpendsInItsOrder) {
  const uint64_t smallest = Smallest();
  bool slots_full = false;
  bool chunk_full = false;
  bool all_pinned = false;
  for (uint64_t budget = smallest; budget < smallest + 3000000; budget += 5003) {
    const MemoryPlan plan = Plan(budget);
    EXPECT_GE(plan.stream.passing_slots, 4U);
    EXPECT_LE(plan.stream.passing_slots, 16U);
    // What is left over when the next slot does not fit buys rows.
    EXPECT_TRUE(plan.stream.passing_slots == 16U ||
                (std::max<size_t>(plan.chunk_rows, 8) - 8) * 3000 < ExpertSlotBytes(schedule_));
    EXPECT_TRUE(Pins(plan) <= 4 || plan.chunk_rows >= 36U);
    if (plan.trunk_bytes_per_token + plan.head_bytes_per_token == 0) all_pinned = true;
    slots_full = slots_full || plan.stream.passing_slots == 16;
    chunk_full = chunk_full || plan.chunk_rows == 40;
  }
  EXPECT_TRUE(slots_full);
  EXPECT_TRUE(chunk_full);
  EXPECT_TRUE(all_pinned);
}

TEST_F(MemoryPlanTest, MoreMemoryNeverReadsMore) {
  const uint64_t smallest = Smallest();
  uint64_t before = ~uint64_t{0};
  for (uint64_t budget = smallest; budget < smallest + 20000000; budget += 50021) {
    const uint64_t bytes = Plan(budget).bytes_per_token();
    // Whole matrices: a little more memory may hold another set.
    EXPECT_LE(bytes, before == ~uint64_t{0} ? before : before + before / 20);
    before = std::min(before, bytes);
  }
  const MemoryPlan all = Plan(uint64_t{1} << 40);
  EXPECT_EQ(all.bytes_per_token(), all.embedding_bytes_per_token);
  const auto moe_layers = static_cast<size_t>(std::count(
      checkpoint_.config().dense_layers.begin(), checkpoint_.config().dense_layers.end(), false));
  EXPECT_EQ(all.stream.cached_slots, moe_layers * checkpoint_.config().moe.experts);
}

TEST_F(MemoryPlanTest, TakesLongerChunksWhereTheySaveMoreReadingThanTheirMemoryWould) {
  const uint64_t budget = Smallest() + 1000000;
  const auto chunk_with = [&](uint64_t row_bytes, uint64_t given, size_t most) {
    PlanRequest request = Request(given);
    request.activation_bytes = [row_bytes](size_t rows) { return 2000 + rows * row_bytes; };
    request.most_chunk_rows = most;
    const MemoryPlan plan = MakeMemoryPlan(checkpoint_, request);
    EXPECT_LE(plan.total_bytes, given);
    return plan.chunk_rows;
  };
  EXPECT_EQ(chunk_with(1, budget, 0), 40U);
  EXPECT_EQ(chunk_with(1, budget, 100), 100U);
  EXPECT_EQ(chunk_with(1, budget, 320), 320U);
  // Rows that are as dear as a matrix.
  EXPECT_EQ(chunk_with(3000, budget, 320), 40U);
  // Where nothing is read there is nothing to be saved.
  EXPECT_EQ(chunk_with(1, uint64_t{1} << 40, 320), 40U);
}

TEST_F(MemoryPlanTest, SpreadsPinsEvenlyOverTheWalk) {
  uint64_t all = 0;
  for (const PassStep& step : schedule_.steps()) {
    if (step.kind != StepKind::kExperts) all += PinBytes(step);
  }
  PlanRequest request = Request(0);
  const uint64_t before_pins = [&] {
    request.budget_bytes = uint64_t{1} << 40;
    MemoryPlan plan = MakeMemoryPlan(checkpoint_, request);
    return plan.total_bytes - all - plan.stream.cached_slots * ExpertSlotBytes(schedule_);
  }();
  request.budget_bytes = before_pins + all / 2;
  const MemoryPlan plan = MakeMemoryPlan(checkpoint_, request);
  uint64_t pinned_first_half = 0;
  uint64_t pinned = 0;
  for (size_t i = 0; i < schedule_.steps().size(); ++i) {
    if (!plan.stream.pinned[i]) continue;
    const uint64_t bytes = PinBytes(schedule_.steps()[i]);
    pinned += bytes;
    if (i < schedule_.steps().size() / 2) pinned_first_half += bytes;
  }
  EXPECT_GT(pinned, all * 45 / 100);
  EXPECT_GT(pinned_first_half, pinned * 3 / 10);
  EXPECT_LT(pinned_first_half, pinned * 7 / 10);
}

TEST_F(MemoryPlanTest, TakesTheExpertCacheThatWasAskedForBeforePins) {
  PlanRequest request = Request(Smallest() + 3000000);
  const MemoryPlan without = MakeMemoryPlan(checkpoint_, request);
  request.expert_cache_bytes = 10 * ExpertSlotBytes(schedule_);
  const MemoryPlan with = MakeMemoryPlan(checkpoint_, request);
  EXPECT_EQ(with.stream.cached_slots, 10U);
  EXPECT_LE(with.total_bytes, request.budget_bytes);
  request.expert_cache_bytes = 0;
  EXPECT_EQ(MakeMemoryPlan(checkpoint_, request).stream.cached_slots, 0U);
  EXPECT_LE(without.total_bytes, request.budget_bytes);
}

TEST_F(MemoryPlanTest, TheStreamKeepsWhatThePlanGaveIt) {
  const uint64_t smallest = Smallest();
  for (const uint64_t more : {uint64_t{0}, uint64_t{500000}, uint64_t{1} << 30}) {
    const MemoryPlan plan = Plan(smallest + more);
    uint64_t given = 0;
    for (const PlanItem& item : plan.items) {
      if (item.name == "tile ring" || item.name == "expert slots" ||
          item.name == "pinned matrices" || item.name == "expert cache") {
        given += item.bytes;
      }
    }
    const auto stream = MakeWeightStream(checkpoint_, plan, {});
    EXPECT_EQ(stream->resident_bytes(), given);
    const ExpertChoice choice = SomeExperts(checkpoint_, 1);
    EXPECT_EQ(Difference(RunPass(*stream, checkpoint_, true, choice),
                         ExpectedPass(checkpoint_, true, choice)),
              "");
  }
}

TEST_F(MemoryPlanTest, APassOfManyRowsReadsSharedExpertsOnce) {
  const MemoryPlan plan = Plan(Smallest());
  const uint64_t one = BytesOfPass(checkpoint_, plan, 1, true);
  EXPECT_NEAR(static_cast<double>(one), static_cast<double>(plan.bytes_per_token()), 16.0);
  EXPECT_EQ(one - BytesOfPass(checkpoint_, plan, 1, false), plan.head_bytes_per_token);
  EXPECT_LT(BytesOfPass(checkpoint_, plan, 8, true), 8 * one);
  EXPECT_GT(BytesOfPass(checkpoint_, plan, 8, true), one);
}

TEST_F(MemoryPlanTest, CountsOneAsOne) {
  PlanRequest request = Request(1000000000);
  request.chunk_rows = 1;
  request.context = 1;
  const std::string text = FormatPlan(MakeMemoryPlan(checkpoint_, request));
  EXPECT_NE(text.find("chunk of 1 row\n"), std::string::npos) << text;
  EXPECT_NE(text.find("2 x 1 position\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("1 rows"), std::string::npos) << text;
}

TEST_F(MemoryPlanTest, IsShownWithEveryItem) {
  const MemoryPlan plan = Plan(Smallest() + 1000000);
  const std::string text = FormatPlan(plan);
  for (const PlanItem& item : plan.items) EXPECT_THAT(text, testing::HasSubstr(item.name));
  const nlohmann::ordered_json json = PlanToJson(plan);
  EXPECT_EQ(json["total_bytes"], plan.total_bytes);
  EXPECT_EQ(json["smallest_bytes"], plan.smallest_bytes);
  EXPECT_EQ(json["items"].size(), plan.items.size());
  EXPECT_EQ(json["read_per_token"]["bytes"], plan.bytes_per_token());
}

TEST(MemoryPlan, TheRingReachesOtherDrivesWhereTheBudgetAllows) {
  const ScratchFolder scratch;
  GeometryChanges changes;
  changes.layers = 4;
  changes.experts = 16;
  SynthOptions synth;
  synth.config_json = GeometryConfig("k3", changes);
  synth.output = scratch.path() / "k3";
  synth.sparse = true;
  WriteSynthCheckpoint(synth);
  const Checkpoint checkpoint = Checkpoint::Open(scratch.path() / "k3");
  std::vector<uint64_t> devices;
  for (size_t i = 0; i < checkpoint.shards().size(); ++i) devices.push_back(i % 2);
  const auto plan = [&](uint64_t budget, const DriveMap& drives) {
    PlanRequest request;
    request.budget_bytes = budget;
    request.activation_bytes = [](size_t rows) { return rows * 1000; };
    request.drives = drives;
    return MakeMemoryPlan(checkpoint, request);
  };
  const auto pinned = [](const MemoryPlan& made) {
    const auto item = std::find_if(made.items.begin(), made.items.end(),
                                   [](const PlanItem& i) { return i.name == "pinned matrices"; });
    return item->bytes;
  };
  const PassSchedule schedule(checkpoint);
  const uint64_t all = schedule.trunk_bytes() + schedule.head_bytes();
  uint64_t largest = 0;  // a matrix, but the head: how evenly pins can be cut
  for (const PassStep& step : schedule.steps()) {
    if (step.kind == StepKind::kMatrix) largest = std::max(largest, PinBytes(step));
  }
  size_t together = 0;
  for (uint64_t budget = 500000000; budget < all * 3 / 4; budget += 500000000) {
    const MemoryPlan one = plan(budget, {});
    const MemoryPlan two = plan(budget, DriveMap(devices));
    EXPECT_FALSE(one.drives_together);
    EXPECT_LE(two.total_bytes, budget);
    ASSERT_GE(two.stream.ring_bytes, one.stream.ring_bytes);
    const uint64_t more = two.stream.ring_bytes - one.stream.ring_bytes;
    // Room that no matrix fits in is left over by both.
    EXPECT_LE(more, pinned(one) / 3 + 100000000) << budget;
    EXPECT_LE(two.bytes_per_token(), one.bytes_per_token() + more + largest) << budget;
    if (two.drives_together) ++together;
    const uint64_t layer = (all - pinned(one)) / checkpoint.config().layers;
    EXPECT_TRUE(!two.drives_together || more > layer / 2) << budget;
    EXPECT_EQ(plan(budget, DriveMap(std::vector<uint64_t>(devices.size(), 5))).stream.ring_bytes,
              one.stream.ring_bytes);
  }
  EXPECT_GE(together, 4U);
  const MemoryPlan everything = plan(uint64_t{1} << 40, DriveMap(devices));
  EXPECT_EQ(everything.bytes_per_token(), everything.embedding_bytes_per_token);
  EXPECT_LE(everything.stream.ring_bytes, uint64_t{16} << 20);
}

TEST(MemoryPlan, WorksForAModelWithoutExperts) {
  for (const char* name : {"all-mla", "kimi-linear", "odd-shapes"}) {
    const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint(name));
    const PlanRequest request = {.budget_bytes = 100000000,
                                 .process_bytes = 1000000,
                                 .sequence_bytes = 1000,
                                 .activation_bytes = [](size_t rows) { return rows * 100; },
                                 .expert_cache_bytes = std::nullopt};
    const MemoryPlan plan = MakeMemoryPlan(checkpoint, request);
    EXPECT_LE(plan.total_bytes, request.budget_bytes);
    EXPECT_EQ(plan.bytes_per_token(), plan.embedding_bytes_per_token);
  }
}

}  // namespace
}  // namespace kimi_k3
