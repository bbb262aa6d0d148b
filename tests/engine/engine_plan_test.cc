// Tests of what an engine asks of the memory plan, and of plans that this machine cannot keep.
#include "engine/engine_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/golden_engine.h"

namespace kimi_k3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CheckAvailable, RefusesAPlanThatTheSystemWouldKill) {
  MemoryPlan plan;
  plan.budget_bytes = 6000000000;
  plan.total_bytes = 5900000000;
  const std::string group = "/sys/fs/cgroup/small";
  EXPECT_NO_THROW(CheckAvailable(plan, {.available_bytes = 5900000000, .source = group}));
  try {
    CheckAvailable(plan, {.available_bytes = 1570000000, .source = group});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBudget);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("6.00 GB"), HasSubstr("1.57 GB"), HasSubstr(group),
                                    HasSubstr("--memory 1570M")));
  }
}

TEST(MakePlanRequest, LeavesTheChunkToThePlanUnlessItIsAskedFor) {
  EngineOptions options = GoldenOptions("k3", 4096);
  const Checkpoint checkpoint = OpenCheckpoint(options);
  const auto request = [&] {
    return MakePlanRequest(checkpoint, ResolveOptions(options, checkpoint.config()), 1000000);
  };
  options.prompt_chunk = 0;
  EXPECT_EQ(request().chunk_rows, 256U);
  EXPECT_EQ(request().most_chunk_rows, 2048U);
  options.prompt_chunk = 300;
  EXPECT_EQ(request().chunk_rows, 300U);
  EXPECT_EQ(request().most_chunk_rows, 0U);
  options.prompt_chunk = 0;
  options.context = 40;
  options.sequences = 3;
  EXPECT_EQ(request().chunk_rows, 120U);
  EXPECT_EQ(request().most_chunk_rows, 120U);
}

}  // namespace
}  // namespace kimi_k3
