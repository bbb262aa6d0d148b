// Rows of weights as they are stored, opened 32 columns at a time and widened to f32 in registers.
#if defined(KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_
#undef KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_
#else
#define KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_
#endif

#include <algorithm>

#include "base/quantized_group.h"
#include "kernels/matmul.h"
#include "kernels/mxfp4-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Columns that a kernel takes in one step: an MXFP4 group, two times sixteen lanes.
inline constexpr size_t kStepColumns = kMxfp4GroupColumns;

// A Row<T> stands for one stored row. Open(step) gives the 32 columns from 32 * step on, whose
// Load(half) widens 16 of them. The last columns, fewer than 32, come from Tail(), a copy whose
// missing columns have the weight +0.
template <WeightType T>
class Row;

template <>
class Row<WeightType::kF32> {
 public:
  class Step {
   public:
    HWY_INLINE Step() = default;
    HWY_INLINE explicit Step(const std::byte* p) : p_(p) {}
    HWY_INLINE F16 Load(size_t half) const {
      return HWY_NAMESPACE::Load(reinterpret_cast<const float*>(p_) + half * kLanes);
    }

   private:
    const std::byte* p_ = nullptr;
  };
  static constexpr size_t kStepBytes = kStepColumns * sizeof(float);
  static constexpr bool kHasTail = true;

  HWY_INLINE Row() = default;
  HWY_INLINE Row(const WeightView& w, size_t row)
      : data_(w.data + row * w.columns * sizeof(float)) {}
  template <class S = Step>
  HWY_INLINE S Open(size_t step) const {
    return S(data_ + step * kStepBytes);
  }

 private:
  const std::byte* data_ = nullptr;
};

template <>
class Row<WeightType::kBf16> {
 public:
  class Step {
   public:
    HWY_INLINE Step() = default;
    HWY_INLINE explicit Step(const std::byte* p) : p_(p) {}
    HWY_INLINE F16 Load(size_t half) const {
      return HWY_NAMESPACE::Load(reinterpret_cast<const uint16_t*>(p_) + half * kLanes);
    }

   private:
    const std::byte* p_ = nullptr;
  };
  static constexpr size_t kStepBytes = kStepColumns * sizeof(uint16_t);
  static constexpr bool kHasTail = true;

  HWY_INLINE Row() = default;
  HWY_INLINE Row(const WeightView& w, size_t row)
      : data_(w.data + row * w.columns * sizeof(uint16_t)) {}
  template <class S = Step>
  HWY_INLINE S Open(size_t step) const {
    return S(data_ + step * kStepBytes);
  }

 private:
  const std::byte* data_ = nullptr;
};

template <>
class Row<WeightType::kMxfp4> {
 public:
  using Step = Mxfp4Group;
  static constexpr size_t kStepBytes = kStepColumns / 2;
  static constexpr bool kHasTail = false;  // columns are a multiple of 32

  HWY_INLINE Row() = default;
  HWY_INLINE Row(const WeightView& w, size_t row)
      : data_(w.data + row * (w.columns / 2)),
        scales_(w.scales + row * (w.columns / kMxfp4GroupColumns)) {}
  template <class Group = Step>
  HWY_INLINE Group Open(size_t step) const {
    return Group(data_ + step * kStepBytes, scales_[step]);
  }

 private:
  const std::byte* data_ = nullptr;
  const uint8_t* scales_ = nullptr;
};

// Signed bytes under a common scale.
class Q8Group {
 public:
  HWY_INLINE Q8Group() {}
  HWY_INLINE explicit Q8Group(const std::byte* group)
      : numbers_(reinterpret_cast<const int8_t*>(group + kScaleBytes)), scale_(GroupScale(group)) {}
  HWY_INLINE F16 Load(size_t half) const {
    const hn::Rebind<int8_t, DF> d8;
    F16 out;
    KIMI_K3_UNROLL
    for (size_t i = 0; i < kParts; ++i) {
      const auto bytes = hn::LoadU(d8, numbers_ + half * kLanes + i * kPartLanes);
      out.part[i] = hn::Mul(hn::ConvertTo(DF(), hn::PromoteTo(DI32(), bytes)), scale_);
    }
    return out;
  }
  HWY_INLINE static VF GroupScale(const std::byte* group) {
    // Four bytes, of which the upper two are shifted out: they come from memory into all lanes at
    // once.
    uint32_t bits;
    std::memcpy(&bits, group, sizeof bits);
    return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::Set(DU32(), bits)));
  }

 private:
  const int8_t* numbers_;
  VF scale_;
};

// Nibbles under a common scale: the low ones are the first sixteen columns.
class Q4Group {
 public:
  HWY_INLINE Q4Group() {}
#if HWY_MAX_BYTES == 64
  // The sixteen values are a register; a lookup uses four bits of a lane.
  HWY_INLINE explicit Q4Group(const std::byte* group) {
    const __m512 numbers = _mm512_setr_ps(-8.0F, -7.0F, -6.0F, -5.0F, -4.0F, -3.0F, -2.0F, -1.0F,
                                          0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F);
    values_ = _mm512_mul_ps(numbers, Q8Group::GroupScale(group).raw);
    pairs_ = _mm512_cvtepu8_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(group + kScaleBytes)));
  }
  HWY_INLINE F16 Load(size_t half) const {
    const __m512i index = half == 0 ? pairs_ : _mm512_srli_epi32(pairs_, 4);
    F16 out;
    out.part[0] = VF{_mm512_permutexvar_ps(index, values_)};
    return out;
  }

 private:
  __m512 values_;
  __m512i pairs_;
#else
  HWY_INLINE explicit Q4Group(const std::byte* group)
      : pairs_(reinterpret_cast<const uint8_t*>(group + kScaleBytes)),
        scale_(Q8Group::GroupScale(group)) {}
  HWY_INLINE F16 Load(size_t half) const {
    const hn::Rebind<uint8_t, DF> d8;
    const auto bias = hn::Set(DI32(), kQ4Bias);
    F16 out;
    KIMI_K3_UNROLL
    for (size_t i = 0; i < kParts; ++i) {
      const auto pairs = hn::PromoteTo(DI32(), hn::LoadU(d8, pairs_ + i * kPartLanes));
      const auto nibbles =
          half == 0 ? hn::And(pairs, hn::Set(DI32(), 15)) : hn::ShiftRight<4>(pairs);
      out.part[i] = hn::Mul(hn::ConvertTo(DF(), hn::Sub(nibbles, bias)), scale_);
    }
    return out;
  }

 private:
  const uint8_t* pairs_;
  VF scale_;
#endif
};

// Rows of groups that begin with their scale.
template <class Group, size_t kGroupBytes>
class GroupedRow {
 public:
  using Step = Group;
  static constexpr size_t kStepBytes = kGroupBytes;
  static constexpr bool kHasTail = false;  // columns are a multiple of 32

  HWY_INLINE GroupedRow() = default;
  HWY_INLINE GroupedRow(const WeightView& w, size_t row)
      : data_(w.data + row * (w.columns / kStepColumns * kStepBytes)) {}
  template <class S = Step>
  HWY_INLINE S Open(size_t step) const {
    return S(data_ + step * kStepBytes);
  }

 private:
  const std::byte* data_ = nullptr;
};

template <>
class Row<WeightType::kQ8> : public GroupedRow<Q8Group, kQ8GroupBytes> {
 public:
  HWY_INLINE Row() = default;
  HWY_INLINE Row(const WeightView& w, size_t row) : GroupedRow(w, row) {}
};

template <>
class Row<WeightType::kQ4> : public GroupedRow<Q4Group, kQ4GroupBytes> {
 public:
  HWY_INLINE Row() = default;
  HWY_INLINE Row(const WeightView& w, size_t row) : GroupedRow(w, row) {}
};

// The last columns of a row, fewer than a step, with zero bytes behind them. Only where
// Row<T>::kHasTail.
template <WeightType T>
class RowTail {
 public:
  HWY_INLINE RowTail() = default;
  HWY_INLINE void Copy(const WeightView& w, size_t row) {
    constexpr size_t kWeightBytes = Row<T>::kStepBytes / kStepColumns;
    const size_t done = w.columns / kStepColumns * kStepColumns;
    std::memset(bytes_, 0, sizeof bytes_);
    std::memcpy(bytes_, w.data + (row * w.columns + done) * kWeightBytes,
                (w.columns - done) * kWeightBytes);
  }
  HWY_INLINE typename Row<T>::Step Open() const { return typename Row<T>::Step(bytes_); }

 private:
  std::byte bytes_[Row<T>::kStepBytes];
};

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
