// Tests of the stream that a plan makes.
#include "residency/stream_factory.h"

#include <gtest/gtest.h>

#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

TEST(StreamFactory, EveryBudgetAndWayShowsTheSameBytes) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("unaligned"));
  PlanRequest request = {.budget_bytes = 0,
                         .process_bytes = 1000,
                         .sequence_bytes = 1000,
                         .activation_bytes = [](size_t rows) { return rows * 100; },
                         .expert_cache_bytes = std::nullopt};
  request.budget_bytes = uint64_t{1} << 40;
  const uint64_t smallest = MakeMemoryPlan(checkpoint, request).smallest_bytes;
  const auto want = ExpectedPass(checkpoint, true, SomeExperts(checkpoint, 0));
  for (uint64_t budget = smallest; budget < smallest + 500000; budget += 30011) {
    request.budget_bytes = budget;
    const MemoryPlan plan = MakeMemoryPlan(checkpoint, request);
    for (const IoMode mode : {IoMode::kAuto, IoMode::kBuffered, IoMode::kMmap}) {
      IoOptions io;
      io.mode = mode;
      const auto stream = MakeWeightStream(checkpoint, plan, io);
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_EQ(Difference(RunPass(*stream, checkpoint, true, SomeExperts(checkpoint, 0)), want),
                  "");
      }
    }
  }
}

}  // namespace
}  // namespace kimi_k3
