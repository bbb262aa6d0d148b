// Rows of the latent cache widened to f32, 32 numbers at a time.
#if defined(KIMI_K3_KERNELS_CACHE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_CACHE_ROWS_INL_H_
#undef KIMI_K3_KERNELS_CACHE_ROWS_INL_H_
#else
#define KIMI_K3_KERNELS_CACHE_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/cache_rows.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

HWY_INLINE float BlockScale(const std::byte* scales, size_t block) {
  uint16_t half;
  std::memcpy(&half, scales + block * sizeof half, sizeof half);
  const uint32_t bits = uint32_t{half} << 16;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

HWY_INLINE void ExpandQ8Row(const std::byte* row, size_t width, float* out) {
  const hn::Rebind<int8_t, DF> d8;
  const auto* const integers = reinterpret_cast<const int8_t*>(row);
  const std::byte* const scales = row + width;
  for (size_t block = 0; block * kCacheBlock < width; ++block) {
    const float scale = BlockScale(scales, block);
    const size_t end = std::min(width, (block + 1) * kCacheBlock);
    size_t i = block * kCacheBlock;
    for (; i + kPartLanes <= end; i += kPartLanes) {
      const auto wide = hn::PromoteTo(DI32(), hn::LoadU(d8, integers + i));
      hn::StoreU(hn::Mul(hn::ConvertTo(DF(), wide), hn::Set(DF(), scale)), DF(), out + i);
    }
    for (; i < end; ++i) out[i] = static_cast<float>(integers[i]) * scale;
  }
}

HWY_INLINE void ExpandQ4Row(const std::byte* row, size_t width, float* out) {
  const hn::Rebind<uint8_t, DF> d8;
  const size_t whole = width / kCacheBlock;
  const size_t rest = width % kCacheBlock;
  const auto* integers = reinterpret_cast<const uint8_t*>(row);
  const std::byte* const scales = row + whole * (kCacheBlock / 2) + (rest + 1) / 2;
  const auto eight = hn::Set(DI32(), 8);
  for (size_t block = 0; block < whole; ++block) {
    const VF scale = hn::Set(DF(), BlockScale(scales, block));
    for (size_t i = 0; i < kLanes; i += kPartLanes) {
      const auto both = hn::PromoteTo(DI32(), hn::LoadU(d8, integers + i));
      const auto lower = hn::Sub(hn::And(both, hn::Set(DI32(), 15)), eight);
      const auto upper = hn::Sub(hn::ShiftRight<4>(both), eight);
      hn::StoreU(hn::Mul(hn::ConvertTo(DF(), lower), scale), DF(), out + i);
      hn::StoreU(hn::Mul(hn::ConvertTo(DF(), upper), scale), DF(), out + kLanes + i);
    }
    integers += kCacheBlock / 2;
    out += kCacheBlock;
  }
  const size_t half = (rest + 1) / 2;
  for (size_t i = 0; i < rest; ++i) {
    const int stored = i < half ? integers[i] & 15 : integers[i - half] >> 4;
    out[i] = static_cast<float>(stored - 8) * BlockScale(scales, whole);
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
