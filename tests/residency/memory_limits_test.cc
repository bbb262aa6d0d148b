// Tests of how much memory a process may use, with made-up /proc and /sys.
#include "residency/memory_limits.h"

#include <gtest/gtest.h>

#include <fstream>

#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimitTest() { Write("proc/meminfo", "MemTotal: 999 kB\nMemAvailable:  8000000 kB\n"); }
  void Write(const std::string& file, const std::string& text) {
    const auto path = scratch_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  uint64_t Available(uint64_t resident = 0) {
    return ReadMemoryLimit(resident, scratch_.path()).available_bytes;
  }
  const ScratchFolder scratch_;
};

TEST_F(MemoryLimitTest, IsWhatTheSystemHasWithoutGroups) {
  EXPECT_EQ(Available(), 8192000000U);
  EXPECT_EQ(Available(1000), 8192001000U);
  Write("proc/self/cgroup", "0::/\nnonsense\n");
  EXPECT_EQ(Available(), 8192000000U);
}

TEST_F(MemoryLimitTest, IsTheTightestOfEveryLevelOfVersion2) {
  Write("proc/self/cgroup", "0::/user/app\n");
  Write("sys/fs/cgroup/user/app/memory.max", "max\n");
  Write("sys/fs/cgroup/user/app/memory.high", "5000000000\n");
  Write("sys/fs/cgroup/user/memory.max", "4000000000\n");
  Write("sys/fs/cgroup/user/memory.current", "1000000000\n");
  const MemoryLimit limit = ReadMemoryLimit(0, scratch_.path());
  EXPECT_EQ(limit.available_bytes, 3000000000U);
  EXPECT_NE(limit.source.find("user"), std::string::npos);
  Write("sys/fs/cgroup/user/app/memory.high", "2000000000\n");
  EXPECT_EQ(Available(), 2000000000U);
}

TEST_F(MemoryLimitTest, CountsThePageCacheAsFree) {
  Write("proc/self/cgroup", "0::/app\n");
  Write("sys/fs/cgroup/app/memory.max", "4000000000\n");
  Write("sys/fs/cgroup/app/memory.current", "3900000000\n");
  Write("sys/fs/cgroup/app/memory.stat",
        "anon 100000000\ninactive_file 3000000000\nactive_file 700000000\n");
  EXPECT_EQ(Available(), 3800000000U);
}

TEST_F(MemoryLimitTest, TakesAWordForNoLimit) {
  Write("proc/self/cgroup", "0::/app\n");
  Write("sys/fs/cgroup/app/memory.max", "max\n");
  Write("sys/fs/cgroup/app/memory.current", "7900000000\n");
  EXPECT_EQ(Available(), 8192000000U);
}

TEST_F(MemoryLimitTest, ReadsVersion1InAnyMix) {
  Write("proc/self/cgroup", "5:cpu,memory:/a/b\n1:name=systemd:/x\n0::/\n");
  Write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000000000\n");
  Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2500000000\n");
  Write("sys/fs/cgroup/memory/a/memory.stat",
        "cache 1\ntotal_inactive_file 1000000000\ntotal_active_file 500000000\n");
  EXPECT_EQ(Available(), 2000000000U);
  EXPECT_EQ(Available(50000000), 2050000000U);
}

TEST_F(MemoryLimitTest, IsNothingWhereAGroupIsFull) {
  Write("proc/self/cgroup", "0::/app\n");
  Write("sys/fs/cgroup/app/memory.max", "1000000\n");
  Write("sys/fs/cgroup/app/memory.current", "2000000\n");
  EXPECT_EQ(Available(), 0U);
}

TEST_F(MemoryLimitTest, TheDefaultLeavesAMargin) {
  const MemoryLimit limit = {10000000000U, ""};
  EXPECT_EQ(DefaultBudget(limit), 8500000000U);
}

TEST(MemoryLimit, OfThisMachineIsPositive) {
  EXPECT_GT(ReadMemoryLimit(0).available_bytes, uint64_t{1} << 20);
}

}  // namespace
}  // namespace kimi_k3
