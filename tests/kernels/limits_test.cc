// Tests of what measures the machine.
#include "kernels/limits.h"

#include <gtest/gtest.h>

#include <vector>

namespace kimi_k3::kernels {
namespace {

TEST(Limits, ReadingDependsOnEveryByte) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{1000}}) {
    std::vector<std::byte> data(bytes, std::byte{1});
    const auto before = ReadAll(data);
    for (size_t i = 0; i < bytes; ++i) {
      data[i] = std::byte{2};
      EXPECT_NE(ReadAll(data), before) << i << " of " << bytes;
      data[i] = std::byte{1};
    }
  }
}

TEST(Limits, CountsMultiplyAddsPerNumber) {
  const double few = RunMultiplyAdds(10);
  EXPECT_GT(few, 10.0);
  EXPECT_EQ(RunMultiplyAdds(1000), 100 * few);
}

TEST(Limits, ProcessorTimeGrowsWithWork) {
  const double before = ThreadSeconds();
  RunMultiplyAdds(1000000);
  EXPECT_GT(ThreadSeconds(), before);
}

}  // namespace
}  // namespace kimi_k3::kernels
