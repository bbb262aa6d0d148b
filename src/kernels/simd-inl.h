// Sixteen floats at a time, whatever the register width: the unit of the summation contract.
#if defined(KIMI_K3_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_SIMD_INL_H_
#undef KIMI_K3_KERNELS_SIMD_INL_H_
#else
#define KIMI_K3_KERNELS_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#if !HWY_NATIVE_FMA || HWY_HAVE_SCALABLE
#error "The kernels need fused multiply-add and a fixed vector width on every instruction set"
#endif

// Loops over registers must vanish, or arrays of accumulators would live in memory.
#if HWY_COMPILER_CLANG
#define KIMI_K3_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KIMI_K3_UNROLL _Pragma("GCC unroll 64")
#endif

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr size_t kLanes = 16;

using DF = hn::CappedTag<float, kLanes>;
using DU32 = hn::RebindToUnsigned<DF>;
using DI32 = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;

inline constexpr size_t kPartLanes = hn::MaxLanes(DF());
inline constexpr size_t kParts = kLanes / kPartLanes;

// Lanes 0 .. 15 in order, spread over one, two or four registers. (Constructors that the compiler
// supplies would be compiled without the instruction set; hence the empty ones.)
struct F16 {
  HWY_INLINE F16() {}
  VF part[kParts];
};

HWY_INLINE F16 Fill(float value) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::Set(DF(), value);
  return out;
}

HWY_INLINE F16 Load(const float* p) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::LoadU(DF(), p + i * kPartLanes);
  return out;
}

HWY_INLINE void Store(const F16& v, float* p) {
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) hn::StoreU(v.part[i], DF(), p + i * kPartLanes);
}

// bf16 numbers, widened.
HWY_INLINE F16 Load(const uint16_t* p) {
  const hn::Rebind<uint16_t, DF> d16;
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) {
    const auto wide = hn::PromoteTo(DU32(), hn::LoadU(d16, p + i * kPartLanes));
    out.part[i] = hn::BitCast(DF(), hn::ShiftLeft<16>(wide));
  }
  return out;
}

// As bf16, rounded as FloatToBf16 does: to nearest, ties to even, NaN stays NaN.
HWY_INLINE void Store(const F16& v, uint16_t* p) {
  const hn::Rebind<uint16_t, DF> d16;
  const DU32 du;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) {
    const auto bits = hn::BitCast(du, v.part[i]);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(v.part[i]));
    const auto kept = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(du, 0x40)), rounded);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI32(), kept)), d16, p + i * kPartLanes);
  }
}

// The first n <= 16 lanes from memory, the others `rest`. Reads nothing beyond.
HWY_INLINE F16 LoadPartial(const float* p, size_t n, float rest = 0.0F) {
  float lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = rest;
  std::memcpy(lanes, p, n * sizeof(float));
  return Load(lanes);
}

HWY_INLINE void StorePartial(const F16& v, float* p, size_t n) {
  float lanes[kLanes];
  Store(v, lanes);
  std::memcpy(p, lanes, n * sizeof(float));
}

HWY_INLINE F16 LoadPartial(const uint16_t* p, size_t n) {
  uint16_t lanes[kLanes] = {};
  std::memcpy(lanes, p, n * sizeof(uint16_t));
  return Load(lanes);
}

HWY_INLINE void StorePartial(const F16& v, uint16_t* p, size_t n) {
  uint16_t lanes[kLanes];
  Store(v, lanes);
  std::memcpy(p, lanes, n * sizeof(uint16_t));
}

HWY_INLINE F16 Add(const F16& a, const F16& b) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::Add(a.part[i], b.part[i]);
  return out;
}

HWY_INLINE F16 Sub(const F16& a, const F16& b) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::Sub(a.part[i], b.part[i]);
  return out;
}

HWY_INLINE F16 Mul(const F16& a, const F16& b) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::Mul(a.part[i], b.part[i]);
  return out;
}

HWY_INLINE F16 Div(const F16& a, const F16& b) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::Div(a.part[i], b.part[i]);
  return out;
}

// fma(a, b, c)
HWY_INLINE F16 MulAdd(const F16& a, const F16& b, const F16& c) {
  F16 out;
  KIMI_K3_UNROLL
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return out;
}

// The first two levels of the fixed tree of the summation contract: lane i takes lane i + 8, then
// lane i + 4.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> SumToFour(const F16& v) {
#if HWY_MAX_BYTES == 64
  const hn::CappedTag<float, 8> d8;
  const hn::CappedTag<float, 4> d4;
  const auto eight = hn::Add(hn::LowerHalf(d8, v.part[0]), hn::UpperHalf(d8, v.part[0]));
  return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
#elif HWY_MAX_BYTES == 32
  const hn::CappedTag<float, 4> d4;
  const auto eight = hn::Add(v.part[0], v.part[1]);
  return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
#else
  return hn::Add(hn::Add(v.part[0], v.part[2]), hn::Add(v.part[1], v.part[3]));
#endif
}

// The fixed tree of the summation contract: after SumToFour lane i takes lane i + 2, then i + 1.
HWY_INLINE float SumTree(const F16& v) {
  auto sum = SumToFour(v);
  sum = hn::Add(sum, hn::Shuffle1032(sum));
  sum = hn::Add(sum, hn::Shuffle2301(sum));
  return hn::GetLane(sum);
}

// The same tree for four sums at once, which end in the four lanes.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> SumTrees(const F16& a, const F16& b, const F16& c,
                                                     const F16& d) {
  const hn::CappedTag<float, 4> d4;
  const auto four_a = SumToFour(a);
  const auto four_b = SumToFour(b);
  const auto four_c = SumToFour(c);
  const auto four_d = SumToFour(d);
  const auto two_ab =
      hn::Add(hn::ConcatLowerLower(d4, four_b, four_a), hn::ConcatUpperUpper(d4, four_b, four_a));
  const auto two_cd =
      hn::Add(hn::ConcatLowerLower(d4, four_d, four_c), hn::ConcatUpperUpper(d4, four_d, four_c));
  return hn::Add(hn::ConcatEven(d4, two_cd, two_ab), hn::ConcatOdd(d4, two_cd, two_ab));
}

#if HWY_MAX_BYTES == 64
// Lanes 0, 8, 1, 9, .. 7, 15: an order in which some weights are cheaper to decode.
HWY_INLINE F16 Interleave(const F16& v) {
  const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  F16 out;
  out.part[0] = VF{_mm512_permutexvar_ps(order, v.part[0].raw)};
  return out;
}

HWY_INLINE F16 Deinterleave(const F16& v) {
  const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  F16 out;
  out.part[0] = VF{_mm512_permutexvar_ps(order, v.part[0].raw)};
  return out;
}
#endif

// What a column beyond the end is multiplied by (with a weight of +0): the product is -0, the one
// number that changes no partial sum, not even one of -0.
inline constexpr float kNoColumn = -0.0F;

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
