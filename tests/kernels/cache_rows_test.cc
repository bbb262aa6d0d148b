// Rows of the latent cache: sizes, error bounds, odd numbers, the same bytes everywhere.
#include "kernels/cache_rows.h"

#include <algorithm>
#include <limits>

#include "base/bf16.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(CacheRowsTest);

constexpr size_t kWidths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 72, 101, 576};

std::vector<std::byte> Stored(CacheType type, std::span<const float> values) {
  const std::vector<std::byte> blank(CacheRowBytes(type, values.size()), std::byte{0xa5});
  GuardedBytes row(blank);
  StoreCacheRow(type, values, row.data());
  return {row.data(), row.data() + blank.size()};
}

std::vector<float> Expanded(CacheType type, std::span<const std::byte> stored, size_t width) {
  GuardedBytes row(stored);
  const std::vector<float> blank(width, 9.0F);
  GuardedBytes out(AsBytes(blank));
  ExpandCacheRow(type, row.data(), width, out.floats());
  return {out.floats(), out.floats() + width};
}

std::vector<float> ThereAndBack(CacheType type, std::span<const float> values) {
  return Expanded(type, Stored(type, values), values.size());
}

double SquaredError(std::span<const float> a, std::span<const float> b) {
  double error = 0.0;
  for (size_t i = 0; i < a.size(); ++i) error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return error;
}

// The numbers that a stored row stands for, by the description of the layout alone.
std::vector<float> ByTheBook(CacheType type, std::span<const std::byte> stored, size_t width) {
  std::vector<int> integers;
  size_t at = 0;
  for (size_t first = 0; first < width; first += 32) {
    const size_t n = std::min<size_t>(32, width - first);
    if (type == CacheType::kQ8) {
      for (size_t i = 0; i < n; ++i) integers.push_back(static_cast<int8_t>(stored[at + i]));
      at += n;
      continue;
    }
    const size_t half = (n + 1) / 2;
    for (size_t i = 0; i < n; ++i) {
      const int both = std::to_integer<int>(stored[at + i % half]);
      integers.push_back((i < half ? both % 16 : both / 16) - 8);
    }
    at += half;
  }
  std::vector<float> values;
  for (size_t i = 0; i < width; ++i) {
    const std::byte* const scale = stored.data() + at + i / 32 * 2;
    const uint16_t bits = static_cast<uint16_t>(std::to_integer<unsigned>(scale[0]) |
                                                std::to_integer<unsigned>(scale[1]) << 8);
    values.push_back(static_cast<float>(integers[i]) * Bf16ToFloat(bits));
  }
  EXPECT_EQ(stored.size(), at + (width + 31) / 32 * 2);
  return values;
}

TEST(CacheRows, ARowOfTheFullSizeTakesTheBytesOfTheDesign) {
  EXPECT_EQ(CacheRowBytes(CacheType::kF32, 576), 2304U);
  EXPECT_EQ(CacheRowBytes(CacheType::kBf16, 576), 1152U);
  EXPECT_EQ(CacheRowBytes(CacheType::kQ8, 576), 612U);
  EXPECT_EQ(CacheRowBytes(CacheType::kQ4, 576), 324U);
  EXPECT_EQ(CacheRowBytes(CacheType::kQ8, 33), 37U);
  EXPECT_EQ(CacheRowBytes(CacheType::kQ4, 37), 16U + 3U + 4U);
}

TEST_P(CacheRowsTest, ExpandToTheNumbersOfTheDescribedLayout) {
  for (const CacheType type : {CacheType::kQ8, CacheType::kQ4}) {
    for (const size_t width : kWidths) {
      const auto stored = Stored(type, RandomFloats(width, 11, -3.0F, 3.0F));
      EXPECT_EQ(Bits(Expanded(type, stored, width)), Bits(ByTheBook(type, stored, width))) << width;
    }
  }
}

TEST_P(CacheRowsTest, InQ8NoNumberIsOffByMoreThanAPartIn250OfItsBlocksLargest) {
  for (const float range : {1e-25F, 0.01F, 1.0F, 5e4F, 1e30F}) {
    for (const size_t width : kWidths) {
      const auto values = RandomFloats(width, 3, -range, range);
      const auto back = ThereAndBack(CacheType::kQ8, values);
      for (size_t first = 0; first < width; first += 32) {
        const size_t n = std::min<size_t>(32, width - first);
        float largest = 0.0F;
        for (size_t i = first; i < first + n; ++i) largest = std::max(largest, std::abs(values[i]));
        // Half a scale; the scale is rounded up by at most a part in 128.
        const float bound = largest / 127.0F * (1.0F + 1.0F / 128.0F) * 0.5F * 1.0001F;
        for (size_t i = first; i < first + n; ++i) ASSERT_NEAR(back[i], values[i], bound);
      }
    }
  }
}

TEST_P(CacheRowsTest, Q4IsBetterThanTheScaleOfTheLargestMagnitude) {
  double ours = 0.0;
  double plain = 0.0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    // Sums of uniform numbers: nearly normal, as latents are.
    std::vector<float> values(32);
    for (uint32_t k = 0; k < 6; ++k) {
      const auto more = RandomFloats(32, 100 * seed + k);
      for (size_t i = 0; i < 32; ++i) values[i] += more[i];
    }
    const float largest =
        *std::ranges::max_element(values, {}, [](float value) { return std::abs(value); });
    const float scale = Bf16ToFloat(FloatToBf16(largest / -8.0F));
    std::vector<float> nearest(32);
    for (size_t i = 0; i < 32; ++i) {
      nearest[i] = scale * std::clamp(std::nearbyint(values[i] / scale), -8.0F, 7.0F);
    }
    const double error = SquaredError(ThereAndBack(CacheType::kQ4, values), values);
    EXPECT_LE(error, SquaredError(nearest, values) * 1.02);
    ours += error;
    plain += SquaredError(nearest, values);
  }
  EXPECT_LT(ours, 0.92 * plain);
}

TEST_P(CacheRowsTest, NumbersThatAreRepresentableStayWhatTheyAre) {
  std::vector<float> bytes(96);
  std::vector<float> halves(96);
  for (size_t i = 0; i < 96; ++i) {
    bytes[i] = 0.25F * (static_cast<float>(i % 32 * 8) - 127.0F);
    halves[i] = -0.5F * (static_cast<float>(i % 16) - 8.0F);
  }
  EXPECT_EQ(ThereAndBack(CacheType::kQ8, bytes), bytes);
  EXPECT_EQ(ThereAndBack(CacheType::kQ4, halves), halves);
}

TEST_P(CacheRowsTest, ZerosAndTinyNumbersReadAsZeros) {
  for (const CacheType type : {CacheType::kQ8, CacheType::kQ4}) {
    for (const float value : {0.0F, -0.0F, 0x1p-149F, -0x1.8p-101F}) {
      for (const float back : ThereAndBack(type, std::vector<float>(40, value))) {
        EXPECT_EQ(back, 0.0F) << value;
      }
    }
  }
}

TEST_P(CacheRowsTest, ABlockWithANumberThatIsNotFiniteReadsAsNanAndNoOtherDoes) {
  for (const CacheType type : {CacheType::kQ8, CacheType::kQ4}) {
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity(), 0x1p126F}) {
      for (const size_t at : {0, 31, 32, 66}) {
        std::vector<float> values = RandomFloats(67, 5);
        values[at] = odd;
        const auto back = ThereAndBack(type, values);
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(std::isnan(back[i]), i / 32 == at / 32) << odd << " at " << at << ", " << i;
        }
      }
    }
  }
}

// FNV-1a of stored rows and what they stand for: the same on every processor and instruction set.
TEST_P(CacheRowsTest, HaveTheRecordedBytes) {
  uint64_t digest = 0xcbf29ce484222325U;
  const auto add = [&digest](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      digest = (digest ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3U;
    }
  };
  for (const CacheType type : {CacheType::kQ8, CacheType::kQ4}) {
    for (const size_t width : kWidths) {
      const auto stored = Stored(type, RandomFloats(width, 17, -2.0F, 2.0F));
      add(stored);
      add(AsBytes(Expanded(type, stored, width)));
    }
  }
  EXPECT_EQ(digest, 9575064343925674371U);
}

}  // namespace
}  // namespace kimi_k3::kernels
