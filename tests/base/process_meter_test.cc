#include "base/process_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kimi_k3 {
namespace {

TEST(ProcessMeter, SeesMemoryThatIsTouched) {
  constexpr size_t kBytes = 32 << 20;
  const ProcessReading before = ReadProcessMeters();
  EXPECT_GT(before.resident_bytes, 0U);
  std::vector<char> memory(kBytes, 1);
  const ProcessReading after = ReadProcessMeters();
  EXPECT_GE(after.resident_bytes, before.resident_bytes + kBytes / 2);
  EXPECT_GE(after.peak_resident_bytes, after.resident_bytes / 2);
  EXPECT_GT(after.minor_faults, before.minor_faults);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 1), static_cast<ptrdiff_t>(kBytes));
}

}  // namespace
}  // namespace kimi_k3
