// Rows of weights as they are stored, opened 32 columns at a time and widened to f32 in registers.
#if defined(KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_
#undef KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_
#else
#define KIMI_K3_KERNELS_WEIGHT_ROWS_INL_H_
#endif

#include <algorithm>

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
      const hn::Rebind<uint16_t, DF> d16;
      const auto* p = reinterpret_cast<const uint16_t*>(p_) + half * kLanes;
      F16 out;
      KIMI_K3_UNROLL
      for (size_t i = 0; i < kParts; ++i) {
        const auto wide = hn::PromoteTo(DU32(), hn::LoadU(d16, p + i * kPartLanes));
        out.part[i] = hn::BitCast(DF(), hn::ShiftLeft<16>(wide));
      }
      return out;
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
