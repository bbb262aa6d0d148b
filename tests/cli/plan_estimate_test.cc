// Tests of the estimate of a plan's speed.
#include "cli/plan_estimate.h"

#include <gtest/gtest.h>

#include "base/process_meter.h"
#include "cli/program.h"
#include "engine/engine_plan.h"

namespace kimi_k3 {
namespace {

TEST(PlanEstimate, SaysLongTimesAsPeopleDo) {
  EXPECT_EQ(FormatEstimate(0.1234), "0.123 s");
  EXPECT_EQ(FormatEstimate(89), "89 s");
  EXPECT_EQ(FormatEstimate(7800), "2 h 10 min");
}

TEST(PlanEstimate, ATokenTakesTheLongerOfReadingAndMultiplying) {
  EngineOptions options;
  options.model_dir = SmallModel();
  options.memory_bytes = 200000000;
  const Checkpoint checkpoint = OpenCheckpoint(options);
  options.context = 64;
  options = ResolveOptions(options, checkpoint.config());
  const MemoryPlan plan = MakeMemoryPlan(
      checkpoint, MakePlanRequest(checkpoint, options, ReadProcessMeters().resident_bytes));
  const PlanEstimate estimate = EstimatePlan(checkpoint, plan, options, 10);
  EXPECT_GT(estimate.token_multiply_seconds, 0);
  EXPECT_DOUBLE_EQ(estimate.token_seconds,
                   std::max(estimate.token_read_seconds, estimate.token_multiply_seconds));
  EXPECT_GE(estimate.prompt_seconds, 0);
}

}  // namespace
}  // namespace kimi_k3
