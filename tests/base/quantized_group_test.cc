// Groups of 32 weights: how near the numbers come, extremes, and scales that are refused.
#include "base/quantized_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/bf16.h"

namespace kimi_k3 {
namespace {

using Weights = std::array<float, kQuantizedGroupColumns>;
using Q8 = std::array<std::byte, kQ8GroupBytes>;
using Q4 = std::array<std::byte, kQ4GroupBytes>;

Weights RandomWeights(uint32_t seed, float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  Weights weights;
  for (float& weight : weights) weight = normal(generator);
  return weights;
}

Weights ThroughQ8(const Weights& weights) {
  Q8 group;
  EncodeQ8Group(weights, group);
  EXPECT_FALSE(HasBadGroupScale(group, group.size()));
  Weights out;
  DecodeQ8Group(group, out);
  return out;
}

Weights ThroughQ4(const Weights& weights) {
  Q4 group;
  EncodeQ4Group(weights, group);
  EXPECT_FALSE(HasBadGroupScale(group, group.size()));
  Weights out;
  DecodeQ4Group(group, out);
  return out;
}

double SquaredError(const Weights& a, const Weights& b) {
  double sum = 0.0;
  for (size_t c = 0; c < a.size(); ++c) sum += std::pow(double{a[c]} - double{b[c]}, 2);
  return sum;
}

float LargestMagnitude(const Weights& weights) {
  float largest = 0.0F;
  for (const float weight : weights) largest = std::max(largest, std::abs(weight));
  return largest;
}

TEST(QuantizedGroupTest, Q8IsAtLeastAsGoodAsTheAbsoluteMaximum) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Weights weights = RandomWeights(seed, 0.02F);
    const float scale = Bf16ToFloat(FloatToBf16(LargestMagnitude(weights) / 127.0F));
    Weights plain;
    for (size_t c = 0; c < plain.size(); ++c) {
      const float number = std::nearbyint(weights[c] / scale);
      plain[c] = std::clamp(number, -127.0F, 127.0F) * scale;
    }
    EXPECT_LE(SquaredError(weights, ThroughQ8(weights)), SquaredError(weights, plain) * 1.000001);
  }
}

TEST(QuantizedGroupTest, Q4IsBetterThanTheAbsoluteMaximum) {
  double fitted = 0.0;
  double plain = 0.0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Weights weights = RandomWeights(seed, 0.02F);
    const float scale = LargestMagnitude(weights) / 7.0F;
    Weights rounded;
    for (size_t c = 0; c < rounded.size(); ++c) {
      rounded[c] = std::nearbyint(weights[c] / scale) * scale;
    }
    fitted += SquaredError(weights, ThroughQ4(weights));
    plain += SquaredError(weights, rounded);
  }
  EXPECT_LT(fitted, 0.8 * plain);
}

TEST(QuantizedGroupTest, NumbersOfTheGridComeBackExactly) {
  Weights weights;
  for (size_t c = 0; c < weights.size(); ++c) {
    weights[c] = (static_cast<float>(c % 16) - 8.0F) * 0.03125F;
  }
  EXPECT_EQ(ThroughQ4(weights), weights);
  weights[3] = 127 * 0.03125F;
  EXPECT_EQ(ThroughQ8(weights), weights);
}

TEST(QuantizedGroupTest, ZerosStayZeros) {
  const Weights zeros{};
  EXPECT_EQ(ThroughQ8(zeros), zeros);
  EXPECT_EQ(ThroughQ4(zeros), zeros);
}

TEST(QuantizedGroupTest, ExtremeWeightsStayFinite) {
  for (const float size : {std::numeric_limits<float>::max(), 1e38F, 1e-38F,
                           std::numeric_limits<float>::denorm_min()}) {
    Weights weights = RandomWeights(1, 0.1F);
    for (float& weight : weights) weight = std::clamp(weight, -1.0F, 1.0F) * size;
    weights[7] = -size;
    // Scales are bf16 numbers, of which the smallest is 2^-133.
    for (const Weights& out : {ThroughQ8(weights), ThroughQ4(weights)}) {
      for (size_t c = 0; c < out.size(); ++c) {
        ASSERT_TRUE(std::isfinite(out[c]));
        ASSERT_LE(std::abs(double{out[c]} - double{weights[c]}),
                  std::max(0.15 * double{size}, 0x1p-133));
      }
    }
  }
}

TEST(QuantizedGroupTest, LayoutIsTheDocumentedOne) {
  Weights weights{};
  weights[0] = -8.0F;
  weights[1] = 3.0F;
  weights[16] = 7.0F;
  weights[31] = -1.0F;
  Q4 q4;
  EncodeQ4Group(weights, q4);
  Weights out;
  DecodeQ4Group(q4, out);
  EXPECT_EQ(out, weights);
  const uint16_t one = FloatToBf16(1.0F);
  EXPECT_EQ(std::memcmp(q4.data(), &one, 2), 0);
  EXPECT_EQ(q4[2], std::byte{0xf0});
  EXPECT_EQ(q4[3], std::byte{0x8b});
  EXPECT_EQ(q4[17], std::byte{0x78});
}

TEST(QuantizedGroupTest, RefusesScalesThatAreNoNumbersOrTooLarge) {
  std::vector<std::byte> groups(kQ8GroupBytes * 3, std::byte{1});
  const auto set = [&](size_t group, float scale) {
    const uint16_t bits = FloatToBf16(scale);
    std::memcpy(&groups[group * kQ8GroupBytes], &bits, 2);
  };
  for (size_t group = 0; group < 3; ++group) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY, 0x1p121F}) {
      set(group, bad);
      EXPECT_TRUE(HasBadGroupScale(groups, kQ8GroupBytes));
    }
    set(group, 0x1.fep120F);
    EXPECT_FALSE(HasBadGroupScale(groups, kQ8GroupBytes));
  }
  EXPECT_FALSE(HasBadGroupScale({}, kQ4GroupBytes));
}

}  // namespace
}  // namespace kimi_k3
