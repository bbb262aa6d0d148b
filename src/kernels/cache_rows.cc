// Rows of the latent cache: how they are written, and what they stand for.
#include "kernels/cache_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cache_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

void ExpandQ8RowTarget(const std::byte* row, size_t width, float* out) {
  ExpandQ8Row(row, width, out);
}
void ExpandQ4RowTarget(const std::byte* row, size_t width, float* out) {
  ExpandQ4Row(row, width, out);
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {
namespace {

HWY_EXPORT(ExpandQ8RowTarget);
HWY_EXPORT(ExpandQ4RowTarget);

constexpr float kTooLarge = 0x1p126F;
constexpr float kTooSmall = 0x1p-100F;
constexpr uint16_t kNanScale = 0x7fc0;

// A block as it is stored; unused integers are 0.
struct Block {
  int integers[kCacheBlock] = {};
  uint16_t scale = 0;  // bf16
};

// The number of largest magnitude; NaN where a number is NaN.
float Largest(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) {
    if (std::isnan(value)) return value;
    if (std::abs(value) > std::abs(largest)) largest = value;
  }
  return largest;
}

// Ties to even.
int Integer(float value, float scale, int least, int most) {
  return std::clamp(static_cast<int>(std::nearbyint(value / scale)), least, most);
}

// value > 0.
uint16_t RoundedUp(float value) {
  const uint16_t below = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  return Bf16ToFloat(below) == value ? below : static_cast<uint16_t>(below + 1);
}

Block FitQ8(std::span<const float> values, float largest) {
  constexpr int kMost = 127;
  Block block;
  block.scale = RoundedUp(std::abs(largest) / static_cast<float>(kMost));
  const float scale = Bf16ToFloat(block.scale);
  for (size_t i = 0; i < values.size(); ++i) {
    block.integers[i] = Integer(values[i], scale, -kMost, kMost);
  }
  return block;
}

// The integers that a scale gives, and the scale that fits these best. Products of a float and an
// integer are exact in double, so no compiler or processor can sum them otherwise.
Block FitQ4From(std::span<const float> values, float start) {
  Block block;
  double products = 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const int integer = Integer(values[i], start, -8, 7);
    block.integers[i] = integer;
    products += static_cast<double>(values[i]) * integer;
    squares += static_cast<double>(integer * integer);
  }
  block.scale = FloatToBf16(static_cast<float>(products / squares));
  return block;
}

double SquaredError(std::span<const float> values, const Block& block) {
  const float scale = Bf16ToFloat(block.scale);
  double error = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float off = values[i] - static_cast<float>(block.integers[i]) * scale;
    error += static_cast<double>(off) * static_cast<double>(off);
  }
  return error;
}

Block FitQ4(std::span<const float> values, float largest) {
  constexpr float kLevels[] = {-8.0F, -8.5F, -7.5F, -7.0F, -6.5F, -6.0F, -5.5F, -5.0F};
  Block best;
  double least = std::numeric_limits<double>::infinity();
  for (const float level : kLevels) {
    const Block block = FitQ4From(values, largest / level);
    const double error = SquaredError(values, block);
    if (error >= least) continue;
    least = error;
    best = block;
  }
  return best;
}

Block Fit(CacheType type, std::span<const float> values) {
  const float largest = Largest(values);
  Block block;
  if (!(std::abs(largest) < kTooLarge)) {
    block.scale = kNanScale;
    return block;
  }
  if (std::abs(largest) < kTooSmall) return block;
  return type == CacheType::kQ8 ? FitQ8(values, largest) : FitQ4(values, largest);
}

size_t IntegerBytes(CacheType type, size_t width) {
  if (type == CacheType::kQ8) return width;
  return width / kCacheBlock * (kCacheBlock / 2) + (width % kCacheBlock + 1) / 2;
}

void PackBlock(CacheType type, const Block& block, size_t count, std::byte* to) {
  if (type == CacheType::kQ8) {
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(block.integers[i]);
    return;
  }
  const size_t half = (count + 1) / 2;
  for (size_t i = 0; i < half; ++i) {
    const int upper = half + i < count ? block.integers[half + i] + 8 : 8;
    to[i] = static_cast<std::byte>((block.integers[i] + 8) | (upper << 4));
  }
}

void StoreBlocks(CacheType type, std::span<const float> values, std::byte* row) {
  std::byte* scale = row + IntegerBytes(type, values.size());
  for (size_t first = 0; first < values.size(); first += kCacheBlock) {
    const size_t count = std::min(kCacheBlock, values.size() - first);
    const Block block = Fit(type, values.subspan(first, count));
    PackBlock(type, block, count, row + IntegerBytes(type, first));
    std::memcpy(scale, &block.scale, sizeof block.scale);
    scale += sizeof block.scale;
  }
}

}  // namespace

size_t CacheRowBytes(CacheType type, size_t width) {
  if (type == CacheType::kF32) return width * sizeof(float);
  if (type == CacheType::kBf16) return width * sizeof(uint16_t);
  return IntegerBytes(type, width) + (width + kCacheBlock - 1) / kCacheBlock * sizeof(uint16_t);
}

void StoreCacheRow(CacheType type, std::span<const float> values, std::byte* row) {
  if (type == CacheType::kF32) {
    std::memcpy(row, values.data(), values.size_bytes());
  } else if (type == CacheType::kBf16) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t rounded = FloatToBf16(values[i]);
      std::memcpy(row + i * sizeof rounded, &rounded, sizeof rounded);
    }
  } else {
    StoreBlocks(type, values, row);
  }
}

void ExpandCacheRow(CacheType type, const std::byte* row, size_t width, float* out) {
  if (type == CacheType::kF32) {
    std::memcpy(out, row, width * sizeof(float));
  } else if (type == CacheType::kBf16) {
    for (size_t i = 0; i < width; ++i) {
      uint16_t half = 0;
      std::memcpy(&half, row + i * sizeof half, sizeof half);
      out[i] = Bf16ToFloat(half);
    }
  } else if (type == CacheType::kQ8) {
    HWY_DYNAMIC_DISPATCH(ExpandQ8RowTarget)(row, width, out);
  } else {
    HWY_DYNAMIC_DISPATCH(ExpandQ4RowTarget)(row, width, out);
  }
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
