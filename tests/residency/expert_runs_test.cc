// Tests of the runs of blocks that bring an expert.
#include "residency/expert_runs.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kimi_k3 {
namespace {

TEST(ExpertRuns, IsOneRunWhereTheTensorsAreContiguous) {
  ExpertLocation e;
  e.gate = {{1, 10000, 3000}, {1, 13000, 100}};
  e.up = {{1, 13100, 3000}, {1, 16100, 100}};
  e.down = {{1, 16200, 3000}, {1, 19200, 100}};
  const ExpertRuns runs(e);
  ASSERT_EQ(runs.runs().size(), 1U);
  EXPECT_EQ(runs.runs()[0].blocks.offset, 8192U);
  EXPECT_EQ(runs.runs()[0].blocks.bytes, BlockCeil(19300) - 8192U);
  EXPECT_EQ(runs.runs()[0].needed_end, 19300U);
  EXPECT_EQ(runs.OffsetOf(e.gate.weights), 10000U - 8192U);
  EXPECT_EQ(runs.OffsetOf(e.down.scales), 19200U - 8192U);
  EXPECT_LE(runs.slot_bytes(), ExpertRuns::MostSlotBytes(9300));
}

TEST(ExpertRuns, KeepsApartWhatLiesApart) {
  ExpertLocation e;
  e.gate = {{2, 4096, 4096}, {0, 50000, 10}};
  e.up = {{2, 100000, 4096}, {0, 50010, 10}};
  e.down = {{1, 8000, 300}, {}};
  const ExpertRuns runs(e);
  ASSERT_EQ(runs.runs().size(), 4U);
  uint64_t end = 0;
  for (const ExpertRun& run : runs.runs()) {
    EXPECT_EQ(run.slot_offset, end);
    EXPECT_EQ(run.blocks.offset % kBlockBytes, 0U);
    EXPECT_EQ(run.blocks.bytes % kBlockBytes, 0U);
    end += run.blocks.bytes;
  }
  EXPECT_EQ(runs.slot_bytes(), end);
  EXPECT_LE(end, ExpertRuns::MostSlotBytes(8512));
  EXPECT_EQ(runs.OffsetOf(e.gate.scales), 50000U % kBlockBytes);
  EXPECT_EQ(runs.OffsetOf(e.up.scales) - runs.OffsetOf(e.gate.scales), 10U);
  EXPECT_THROW(runs.OffsetOf({3, 0, 1}), std::logic_error);
}

}  // namespace
}  // namespace kimi_k3
