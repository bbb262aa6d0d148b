// Tests of coding the rows of a matrix.
#include "overlay/matrix_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/bf16.h"
#include "base/coded_bf16.h"
#include "base/quantized_group.h"
#include "base/thread_pool.h"
#include "checkpoint/overlay_record.h"

namespace kimi_k3 {
namespace {

constexpr size_t kRows = 7;
constexpr size_t kColumns = 96;

std::vector<float> Weights() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> weights(kRows * kColumns);
  for (float& weight : weights) weight = Bf16ToFloat(FloatToBf16(normal(random)));
  return weights;
}

std::vector<std::byte> AsBf16(const std::vector<float>& weights) {
  std::vector<std::byte> bytes(weights.size() * 2);
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint16_t bits = FloatToBf16(weights[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

std::vector<std::byte> AsF32(const std::vector<float>& weights) {
  std::vector<std::byte> bytes(weights.size() * 4);
  std::memcpy(bytes.data(), weights.data(), bytes.size());
  return bytes;
}

struct Coded {
  std::vector<std::byte> bytes;
  double error = 0;
  std::optional<size_t> bad;
};

Coded Code(Dtype form, Dtype stored, const std::vector<std::byte>& rows, uint64_t row_bytes,
           size_t threads = 1) {
  ThreadPool pool(threads);
  MatrixEncoder encoder(form, stored, kColumns, row_bytes);
  Coded coded;
  coded.bytes.resize(kRows * row_bytes);
  coded.bad = encoder.Encode(rows, coded.bytes, pool);
  coded.error = encoder.error();
  return coded;
}

TEST(MatrixEncoder, WritesGroupAfterGroupAndMeasuresWhatIsLost) {
  const std::vector<float> weights = Weights();
  for (const Dtype form : {Dtype::kQ8, Dtype::kQ4}) {
    const uint64_t row_bytes = QuantizedRowBytes(form, kColumns);
    const Coded coded = Code(form, Dtype::kBf16, AsBf16(weights), row_bytes);
    EXPECT_FALSE(coded.bad);
    double lost = 0;
    double all = 0;
    const size_t group_bytes = row_bytes / (kColumns / 32);
    for (size_t group = 0; group < weights.size() / 32; ++group) {
      std::array<float, 32> decoded;
      const std::byte* at = coded.bytes.data() + group * group_bytes;
      if (form == Dtype::kQ8) {
        DecodeQ8Group(std::span<const std::byte, kQ8GroupBytes>(at, kQ8GroupBytes), decoded);
      } else {
        DecodeQ4Group(std::span<const std::byte, kQ4GroupBytes>(at, kQ4GroupBytes), decoded);
      }
      for (size_t c = 0; c < 32; ++c) {
        const double weight = weights[group * 32 + c];
        lost += (weight - decoded[c]) * (weight - decoded[c]);
        all += weight * weight;
      }
    }
    EXPECT_NEAR(coded.error, std::sqrt(lost / all), 1e-12);
    EXPECT_LT(coded.error, form == Dtype::kQ8 ? 0.01 : 0.12);
    EXPECT_GT(coded.error, 0);
  }
}

TEST(MatrixEncoder, WritesTheSameBytesForEveryNumberOfThreadsAndWayOfStoring) {
  const std::vector<float> weights = Weights();
  for (const Dtype form : {Dtype::kQ8, Dtype::kQ4}) {
    const uint64_t row_bytes = QuantizedRowBytes(form, kColumns);
    const Coded one = Code(form, Dtype::kBf16, AsBf16(weights), row_bytes);
    const Coded three = Code(form, Dtype::kBf16, AsBf16(weights), row_bytes, 3);
    const Coded wide = Code(form, Dtype::kF32, AsF32(weights), row_bytes, 2);
    EXPECT_EQ(one.bytes, three.bytes);
    EXPECT_EQ(one.bytes, wide.bytes);
    EXPECT_EQ(one.error, three.error);
  }
}

TEST(MatrixEncoder, LosesNothingInTheLosslessFormBeTheNumbersWhatTheyMay) {
  std::vector<float> weights = Weights();
  weights[3] = std::numeric_limits<float>::quiet_NaN();
  weights[200] = -std::numeric_limits<float>::infinity();
  weights[201] = 1e-40F;
  const std::vector<std::byte> rows = AsBf16(weights);
  ThreadPool pool(2);
  CodedBf16Row row = {kColumns, MostEscapes(rows, kColumns, pool)};
  EXPECT_GT(row.escapes, 0U);
  const Coded coded = Code(Dtype::kCodedBf16, Dtype::kBf16, rows, row.bytes(), 2);
  EXPECT_FALSE(coded.bad);
  EXPECT_EQ(coded.error, 0);
}

TEST(MatrixEncoder, FindsTheFullestRow) {
  std::vector<float> weights(kRows * kColumns, 1.0F);
  for (size_t c = 0; c < 12; ++c) {
    weights[4 * kColumns + c] = std::ldexp(1.0F, static_cast<int>(c) + 1);
  }
  ThreadPool pool(2);
  EXPECT_EQ(MostEscapes(AsBf16(weights), kColumns, pool), 13U - 7U);
}

TEST(MatrixEncoder, TellsTheFirstRowThatHoldsNoNumber) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> weights = Weights();
    weights[2 * kColumns + 95] = bad;
    weights[5 * kColumns] = bad;
    for (const Dtype form : {Dtype::kQ8, Dtype::kQ4}) {
      EXPECT_EQ(Code(form, Dtype::kBf16, AsBf16(weights), QuantizedRowBytes(form, kColumns), 2).bad,
                2U);
    }
  }
}

}  // namespace
}  // namespace kimi_k3
