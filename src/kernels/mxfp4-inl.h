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

// 2^(scale - 127) for every scale byte; scale 0 is the subnormal 2^-127. 255 stands for NaN and is
// refused before it comes here.
struct ScaleTable {
  float value[256];
  constexpr ScaleTable() : value{} {
    value[0] = 0x1p-127F;
    value[1] = 0x1p-126F;
    for (size_t scale = 2; scale < 255; ++scale) value[scale] = value[scale - 1] * 2.0F;
  }
};
inline constexpr ScaleTable kScales;

HWY_INLINE VF ScaleValue(uint8_t scale) { return hn::Set(DF(), kScales.value[scale]); }

#if HWY_MAX_BYTES == 64

// The sixteen E2M1 values under every scale. All of them are bf16 numbers (or, beyond the range of
// f32, infinite), so a table takes half a register.
struct ScaledValues {
  uint16_t bits[256][16];
  constexpr ScaledValues() : bits{} {
    for (int scale = 0; scale < 256; ++scale) {
      for (int nibble = 0; nibble < 16; ++nibble) bits[scale][nibble] = Bf16(nibble, scale);
    }
  }
  static constexpr uint16_t Bf16(int nibble, int scale) {
    const int sign = (nibble & 8) << 12;
    const int magnitude = nibble & 7;
    if (magnitude == 0) return static_cast<uint16_t>(sign);
    // 0.5 is 2^-1; the others are 2^0, 2^1 and 2^2, each once with and once without a half.
    const int exponent = scale + magnitude / 2 - 1;
    const int fraction = magnitude > 1 && magnitude % 2 == 1 ? 0x40 : 0;
    if (exponent >= 255) return static_cast<uint16_t>(sign | 0x7f80);
    if (exponent >= 1) return static_cast<uint16_t>(sign | (exponent << 7) | fraction);
    return static_cast<uint16_t>(sign | ((0x80 | fraction) >> (1 - exponent)));
  }
};
alignas(64) inline constexpr ScaledValues kScaledValues;

// The same as f32.
struct WideScaledValues {
  uint32_t bits[256][16];
  constexpr WideScaledValues() : bits{} {
    for (int scale = 0; scale < 256; ++scale) {
      for (int nibble = 0; nibble < 16; ++nibble) {
        bits[scale][nibble] = uint32_t{ScaledValues::Bf16(nibble, scale)} << 16;
      }
    }
  }
};
alignas(64) inline constexpr WideScaledValues kWideScaledValues;

class Mxfp4Group {
 public:
  HWY_INLINE Mxfp4Group() {}
  // Lane i takes byte i / 2 of the first eight bytes to its lower half and the same of the second
  // eight to its upper half, shifts the right nibble down, and looks both up: the table stands
  // twice in its register, so that four bits of an index count.
  HWY_INLINE Mxfp4Group(const std::byte* data, uint8_t scale) {
    alignas(64) static constexpr uint8_t kByteOfHalfLane[64] = {
        0,  0, 8,  0, 0,  0, 8,  0, 1,  0, 9,  0, 1,  0, 9,  0, 2,  0, 10, 0, 2,  0,
        10, 0, 3,  0, 11, 0, 3,  0, 11, 0, 4,  0, 12, 0, 4,  0, 12, 0, 5,  0, 13, 0,
        5,  0, 13, 0, 6,  0, 14, 0, 6,  0, 14, 0, 7,  0, 15, 0, 7,  0, 15, 0};
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
    const __m512i spread = _mm512_shuffle_epi8(bytes, _mm512_load_si512(kByteOfHalfLane));
    const __m512i index = _mm512_srlv_epi32(spread, _mm512_set1_epi64(int64_t{4} << 32));
    const __m512i table = _mm512_broadcast_i64x4(
        _mm256_load_si256(reinterpret_cast<const __m256i*>(kScaledValues.bits[scale])));
    values_ = _mm512_permutexvar_epi16(index, table);
  }

  HWY_INLINE F16 Load(size_t half) const {
    const __m512i bits = half == 0 ? _mm512_slli_epi32(values_, 16)
                                   : _mm512_and_si512(values_, _mm512_set1_epi32(-0x10000));
    F16 out;
    out.part[0] = VF{_mm512_castsi512_ps(bits)};
    return out;
  }

 private:
  __m512i values_;  // bf16: columns 0 .. 15 in the lower halves of the lanes, 16 .. 31 above
};

// The same 32 columns for tiles of few rows: less work to decode, but lanes in the order of
// Interleave(), which the activations must take too.
class Mxfp4InterleavedGroup {
 public:
  HWY_INLINE Mxfp4InterleavedGroup() {}
  HWY_INLINE Mxfp4InterleavedGroup(const std::byte* data, uint8_t scale) : data_(data) {
    table_ = hn::BitCast(DF(), hn::Load(DU32(), kWideScaledValues.bits[scale]));
  }

  // Every 64-bit lane takes the eight bytes of sixteen columns and shifts two of its nibbles, eight
  // apart, to the low ends of its halves; the lookup uses four bits of a lane.
  HWY_INLINE F16 Load(size_t half) const {
    int64_t bytes;
    std::memcpy(&bytes, data_ + half * 8, sizeof bytes);
    const __m512i index =
        _mm512_srlv_epi64(_mm512_set1_epi64(bytes), _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28));
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
  HWY_INLINE Mxfp4Group() {}
  HWY_INLINE Mxfp4Group(const std::byte* data, uint8_t scale) : data_(data) {
    alignas(32) static constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F,
                                                         2.0F, 3.0F, 4.0F, 6.0F};
    table_ = hn::Mul(hn::LoadU(DF(), kMagnitudes), ScaleValue(scale));
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
  HWY_INLINE Mxfp4Group() {}
  HWY_INLINE Mxfp4Group(const std::byte* data, uint8_t scale)
      : data_(data), scale_(ScaleValue(scale)) {}

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
