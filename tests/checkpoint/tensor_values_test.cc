// Tests of the summary of a tensor's numbers.
#include "checkpoint/tensor_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  std::string text(values.size() * sizeof(T), '\0');
  std::memcpy(text.data(), values.data(), text.size());
  return text;
}

class TensorValues : public testing::Test {
 protected:
  ValueSummary Summarize(const std::string& bytes, NumberForm form, size_t threads = 1,
                         const std::string& scales = {}) {
    constexpr size_t kBefore = 5;  // nothing promises alignment
    const auto path = folder_.path() / "numbers";
    WriteFile(path, std::string(kBefore, 'x') + bytes);
    WriteFile(folder_.path() / "scales", scales);
    ThreadPool pool(threads);
    return SummarizeValues({path, kBefore, bytes.size(), form, folder_.path() / "scales", 0}, pool);
  }
  TemporaryFolder folder_;
};

TEST_F(TensorValues, CountsWhatIsNoNumberAndLeavesItOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  const ValueSummary s = Summarize(
      BytesOf<float>({1, -3, 0, -0.0F, std::nanf(""), infinity, -infinity, 4}), NumberForm::kF32);
  EXPECT_EQ(s.count, 8U);
  EXPECT_EQ(s.zeros, 2U);
  EXPECT_EQ(s.nans, 1U);
  EXPECT_EQ(s.infinities, 2U);
  EXPECT_EQ(s.minimum, -3);
  EXPECT_EQ(s.maximum, 4);
  EXPECT_DOUBLE_EQ(s.mean, 0.4);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt((1 + 9 + 16) / 5.0 - 0.16));
}

TEST_F(TensorValues, ReadsBf16) {
  const ValueSummary s =
      Summarize(BytesOf<uint16_t>({FloatToBf16(1.5F), FloatToBf16(-2.0F)}), NumberForm::kBf16);
  EXPECT_EQ(s.minimum, -2);
  EXPECT_EQ(s.maximum, 1.5);
  EXPECT_EQ(s.mean, -0.25);
}

TEST_F(TensorValues, MultipliesPackedNumbersWithTheirScales) {
  // Low half first: 1 and 6, then -0 and 0.5; the second group has the scale 2^-1.
  std::string packed(32, '\0');
  packed[0] = '\x72';
  packed[16] = '\x18';
  const ValueSummary s = Summarize(packed, NumberForm::kE2m1, 1, "\x80\x7e");
  EXPECT_EQ(s.count, 64U);
  EXPECT_EQ(s.zeros, 61U);
  EXPECT_EQ(s.maximum, 12);  // 6 x 2^1
  EXPECT_EQ(s.minimum, 0);
  EXPECT_DOUBLE_EQ(s.mean, (2 + 12 + 0.25) / 64);
  EXPECT_EQ(Summarize(packed, NumberForm::kE2m1, 1, "\xff\x7f").nans, 32U);
}

TEST_F(TensorValues, ReadsScalesAsPowersOfTwoAnd255AsNan) {
  const ValueSummary s = Summarize(std::string("\x7f\x80\xff\x00", 4), NumberForm::kE8m0);
  EXPECT_EQ(s.nans, 1U);
  EXPECT_EQ(s.maximum, 2);
  EXPECT_EQ(s.minimum, std::ldexp(1.0, -127));
}

TEST_F(TensorValues, DependsOnNeitherThreadsNorPieces) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(3, 2);
  std::vector<float> values(1500000);  // more than one chunk
  for (float& value : values) value = normal(random);
  double mean = 0;
  for (const float value : values) mean += value;
  mean /= static_cast<double>(values.size());
  const std::string bytes = BytesOf(values);
  const ValueSummary one = Summarize(bytes, NumberForm::kF32, 1);
  const ValueSummary three = Summarize(bytes, NumberForm::kF32, 3);
  EXPECT_EQ(one.mean, three.mean);
  EXPECT_EQ(one.deviation, three.deviation);
  EXPECT_NEAR(one.mean, mean, 1e-9);
  EXPECT_NEAR(one.deviation, 2, 0.01);
}

TEST_F(TensorValues, OfNothingIsNothing) {
  const ValueSummary s = Summarize("", NumberForm::kBf16);
  EXPECT_EQ(s.count, 0U);
  EXPECT_TRUE(std::isnan(s.mean));
}

TEST_F(TensorValues, AFileThatEndsTooEarlyIsAnError) {
  const auto path = folder_.path() / "short";
  WriteFile(path, "12345678");
  ThreadPool pool(1);
  EXPECT_THROW(SummarizeValues({path, 4, 8, NumberForm::kF32, {}, 0}, pool), Error);
}

}  // namespace
}  // namespace kimi_k3
