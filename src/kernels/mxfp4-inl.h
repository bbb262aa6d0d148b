// Decoding one MXFP4 group: a table of the sixteen E2M1 values, scaled once, then looked up.
#if defined(KIMI_K3_KERNELS_MXFP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_MXFP4_INL_H_
#undef KIMI_K3_KERNELS_MXFP4_INL_H_
#else
#define KIMI_K3_KERNELS_MXFP4_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// The float 2^(scale - 127) for scale 0 .. 254; scale 0 is the subnormal 2^-127.
HWY_INLINE float ScaleValue(uint8_t scale) {
  const uint32_t bits = scale == 0 ? 0x00400000U : uint32_t{scale} << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#if HWY_MAX_BYTES == 64

class Mxfp4Group {
 public:
  HWY_INLINE Mxfp4Group() = default;
  HWY_INLINE Mxfp4Group(const std::byte* data, uint8_t scale) : data_(data) {
    alignas(64) static constexpr float kValues[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                      4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                      -2.0F, -3.0F, -4.0F, -6.0F};
    table_ = hn::Mul(hn::LoadU(DF(), kValues), hn::Set(DF(), ScaleValue(scale)));
  }

  // The eight bytes of sixteen columns go to every 128-bit block, each lane picks its byte and
  // shifts its nibble down; the lookup uses the low four bits of a lane alone.
  HWY_INLINE F16 Load(size_t half) const {
    uint64_t bytes;
    std::memcpy(&bytes, data_ + half * 8, sizeof bytes);
    alignas(64) static constexpr uint8_t kByteOfLane[64] = {
        0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0,
        0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0,
        5, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0};
    const __m512i spread = _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<int64_t>(bytes)),
                                               _mm512_load_si512(kByteOfLane));
    const __m512i index = _mm512_srlv_epi32(spread, _mm512_set1_epi64(int64_t{4} << 32));
    F16 out;
    out.part[0] = VF{_mm512_permutexvar_ps(index, table_.raw)};
    return out;
  }

 private:
  const std::byte* data_;
  VF table_;
};

#elif HWY_MAX_BYTES == 32

class Mxfp4Group {
 public:
  HWY_INLINE Mxfp4Group() = default;
  HWY_INLINE Mxfp4Group(const std::byte* data, uint8_t scale) : data_(data) {
    alignas(32) static constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F,
                                                         2.0F, 3.0F, 4.0F, 6.0F};
    table_ = hn::Mul(hn::LoadU(DF(), kMagnitudes), hn::Set(DF(), ScaleValue(scale)));
  }

  // Four bytes are the nibbles of eight lanes. The lookup uses three bits of a lane, the fourth is
  // the sign.
  HWY_INLINE F16 Load(size_t half) const {
    const __m256i down = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256 sign_bit = _mm256_set1_ps(-0.0F);
    F16 out;
    KIMI_K3_UNROLL
    for (size_t i = 0; i < kParts; ++i) {
      int32_t bytes;
      std::memcpy(&bytes, data_ + half * 8 + i * 4, sizeof bytes);
      const __m256i index = _mm256_srlv_epi32(_mm256_set1_epi32(bytes), down);
      const __m256 magnitude = _mm256_permutevar8x32_ps(table_.raw, index);
      const __m256 sign =
          _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(index, 28)), sign_bit);
      out.part[i] = VF{_mm256_xor_ps(magnitude, sign)};
    }
    return out;
  }

 private:
  const std::byte* data_;
  VF table_;
};

#else

class Mxfp4Group {
 public:
  HWY_INLINE Mxfp4Group() = default;
  HWY_INLINE Mxfp4Group(const std::byte* data, uint8_t scale)
      : data_(data), scale_(hn::Set(DF(), ScaleValue(scale))) {}

  // E2M1 values are bf16 values: two byte tables give their upper and lower halves.
  HWY_INLINE F16 Load(size_t half) const {
    const hn::Full128<uint8_t> d8;
    const hn::Repartition<uint16_t, decltype(d8)> d16;
    alignas(16) static constexpr uint8_t kUpper[16] = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40,
                                                       0x40, 0x40, 0x80, 0xbf, 0xbf, 0xbf,
                                                       0xc0, 0xc0, 0xc0, 0xc0};
    alignas(16) static constexpr uint8_t kLower[16] = {0x00, 0x00, 0x80, 0xc0, 0x00, 0x40,
                                                       0x80, 0xc0, 0x00, 0x00, 0x80, 0xc0,
                                                       0x00, 0x40, 0x80, 0xc0};
    uint8_t padded[16] = {};
    std::memcpy(padded, data_ + half * 8, 8);
    const auto packed = hn::LoadU(d8, padded);
    const auto even = hn::And(packed, hn::Set(d8, 0x0f));
    const auto nibbles = hn::InterleaveLower(d8, even, hn::ShiftRight<4>(packed));
    const auto upper = hn::TableLookupBytes(hn::Load(d8, kUpper), nibbles);
    const auto lower = hn::TableLookupBytes(hn::Load(d8, kLower), nibbles);
    const auto first = hn::BitCast(d16, hn::InterleaveLower(d8, lower, upper));
    const auto second = hn::BitCast(d16, hn::InterleaveUpper(d8, lower, upper));
    F16 out;
    out.part[0] = Widen(hn::LowerHalf(first));
    out.part[1] = Widen(hn::UpperHalf(hn::Half<decltype(d16)>(), first));
    out.part[2] = Widen(hn::LowerHalf(second));
    out.part[3] = Widen(hn::UpperHalf(hn::Half<decltype(d16)>(), second));
    return out;
  }

 private:
  template <class V>
  HWY_INLINE VF Widen(V bf16) const {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(DU32(), bf16));
    return hn::Mul(hn::BitCast(DF(), bits), scale_);
  }

  const std::byte* data_;
  VF scale_;
};

#endif

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
