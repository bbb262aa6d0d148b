// Made-up weights: the right distribution, the same however they are cut into pieces.
#include "checkpoint/synth_noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/bf16.h"

namespace kimi_k3 {
namespace {

std::vector<std::byte> Make(uint64_t seed, std::string_view name, const SynthFill& fill,
                            size_t bytes) {
  SynthNoise noise(seed);
  std::vector<std::byte> out(bytes);
  noise.Begin(name, fill);
  noise.Next(out);
  return out;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments moments;
  for (const float value : values) moments.mean += value;
  moments.mean /= static_cast<double>(values.size());
  for (const float value : values) {
    moments.deviation += (value - moments.mean) * (value - moments.mean);
  }
  moments.deviation = std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

constexpr size_t kCount = 200'000;

TEST(SynthNoise, Bf16IsNormal) {
  const auto bytes = Make(1, "w", {SynthPattern::kBf16, 1.0F, 0.25F}, 2 * kCount);
  std::vector<float> values(kCount);
  size_t beyond_two = 0;
  for (size_t i = 0; i < kCount; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, &bytes[2 * i], sizeof(bits));
    values[i] = Bf16ToFloat(bits);
    beyond_two += std::fabs(values[i] - 1) > 0.5F ? 1 : 0;
  }
  const Moments moments = MomentsOf(values);
  EXPECT_NEAR(moments.mean, 1.0, 0.005);
  EXPECT_NEAR(moments.deviation, 0.25, 0.005);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.0455, 0.005);
}

TEST(SynthNoise, F32IsNormalWithAllBitsOfTheMantissa) {
  const auto bytes = Make(1, "w", {SynthPattern::kF32, -3.0F, 1.5F}, 4 * kCount);
  std::vector<float> values(kCount);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  uint32_t low_bits = 0;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    low_bits |= bits & 0xffff;
  }
  EXPECT_EQ(low_bits, 0xffffU);
  EXPECT_NEAR(MomentsOf(values).mean, -3.0, 0.02);
  EXPECT_NEAR(MomentsOf(values).deviation, 1.5, 0.02);
}

TEST(SynthNoise, NibblesTimesScalesHaveTheDeviation) {
  constexpr std::array<float, 8> kMagnitudes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (const float deviation : {0.05F, 0.018F, 1.0F}) {
    const auto packed = Make(1, "w", {SynthPattern::kNibbles, 0, deviation}, kCount / 2);
    const auto scales = Make(1, "s", {SynthPattern::kScales, 0, deviation}, kCount / 32);
    std::vector<float> values(kCount);
    std::array<size_t, 16> seen{};
    for (size_t i = 0; i < kCount; ++i) {
      const auto byte = static_cast<unsigned>(packed[i / 2]);
      const unsigned nibble = i % 2 == 0 ? byte & 15 : byte >> 4;
      ++seen[nibble];
      const auto scale = static_cast<int>(scales[i / 32]);
      EXPECT_GT(scale, 0);
      EXPECT_LT(scale, 255);
      const float magnitude = std::ldexp(kMagnitudes[nibble & 7], scale - 127);
      values[i] = (nibble & 8) != 0 ? -magnitude : magnitude;
    }
    // Scales are powers of two, so the deviation is met within their distance.
    EXPECT_NEAR(MomentsOf(values).mean, 0.0, 0.02 * deviation);
    EXPECT_GT(MomentsOf(values).deviation, deviation / 1.5);
    EXPECT_LT(MomentsOf(values).deviation, deviation * 1.5);
    for (const size_t count : seen) EXPECT_GT(count, 0U);
  }
}

TEST(SynthNoise, PiecesDoNotMatter) {
  for (const SynthPattern pattern :
       {SynthPattern::kBf16, SynthPattern::kF32, SynthPattern::kNibbles, SynthPattern::kScales}) {
    const SynthFill fill = {pattern, 0, 0.5F};
    const auto whole = Make(5, "w", fill, 1001);
    SynthNoise noise(5);
    noise.Begin("other", {SynthPattern::kBf16, 3, 4});
    noise.Begin("w", fill);
    std::vector<std::byte> pieces(1001);
    const std::span<std::byte> out(pieces);
    noise.Next(out.first(16));
    noise.Next(out.subspan(16, 480));
    noise.Next(out.subspan(496));
    EXPECT_EQ(whole, pieces);
  }
}

TEST(SynthNoise, SeedsAndNamesGiveOtherBytes) {
  const SynthFill fill = {SynthPattern::kBf16, 0, 1};
  EXPECT_NE(Make(1, "w", fill, 64), Make(2, "w", fill, 64));
  EXPECT_NE(Make(1, "w", fill, 64), Make(1, "v", fill, 64));
  EXPECT_EQ(Make(1, "w", fill, 64), Make(1, "w", fill, 64));
}

// Fixed bytes: a change here changes every made-up checkpoint.
TEST(SynthNoise, BytesAreTheSameOnEveryMachine) {
  const auto hash = [](SynthPattern pattern) {
    uint64_t value = 0xcbf29ce484222325;
    for (const std::byte byte : Make(42, "w", {pattern, 0.125F, 0.7F}, 100'000)) {
      value = (value ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
    return value;
  };
  EXPECT_EQ(hash(SynthPattern::kBf16), 15592859047837638823U);
  EXPECT_EQ(hash(SynthPattern::kF32), 6797483616012401647U);
  EXPECT_EQ(hash(SynthPattern::kNibbles), 17186267318650335266U);
  EXPECT_EQ(hash(SynthPattern::kScales), 9089855647221258784U);
}

}  // namespace
}  // namespace kimi_k3
