// Products with stored weights: the choice of instruction set, and what needs no registers.
#include "kernels/matmul.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot-inl.h"
#include "kernels/matmul-inl.h"
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Columns 32 * step .. of one row as f32, at most `count` of them.
template <WeightType T>
HWY_INLINE void ExpandStep(const typename Row<T>::Step& step, size_t count, float* out) {
  for (size_t half = 0; half < 2 && half * kLanes < count; ++half) {
    const F16 values = step.Load(half);
    const size_t left = count - half * kLanes;
    if (left >= kLanes) {
      Store(values, out + half * kLanes);
    } else {
      StorePartial(values, out + half * kLanes, left);
    }
  }
}

template <WeightType T>
HWY_INLINE void ExpandRowOf(const WeightView& w, size_t row, float* out) {
  const Row<T> source(w, row);
  const size_t steps = w.columns / kStepColumns;
  for (size_t s = 0; s < steps; ++s) {
    ExpandStep<T>(source.Open(s), kStepColumns, out + s * kStepColumns);
  }
  if constexpr (Row<T>::kHasTail) {
    const size_t rest = w.columns % kStepColumns;
    if (rest == 0) return;
    RowTail<T> tail;
    tail.Copy(w, row);
    ExpandStep<T>(tail.Open(), rest, out + steps * kStepColumns);
  }
}

// Sums S steps of columns over all rows in registers.
template <WeightType T, size_t S>
HWY_INLINE void TransposedColumns(const WeightView& w, const float* a, size_t first_step,
                                  float* y) {
  F16 sum[S][2];
  KIMI_K3_UNROLL
  for (size_t s = 0; s < S; ++s) sum[s][0] = sum[s][1] = Fill(0.0F);
  for (size_t o = 0; o < w.rows; ++o) {
    const Row<T> row(w, o);
    const F16 factor = Fill(a[o]);
    KIMI_K3_UNROLL
    for (size_t s = 0; s < S; ++s) {
      const typename Row<T>::Step step = row.Open(first_step + s);
      sum[s][0] = MulAdd(factor, step.Load(0), sum[s][0]);
      sum[s][1] = MulAdd(factor, step.Load(1), sum[s][1]);
    }
  }
  KIMI_K3_UNROLL
  for (size_t s = 0; s < S; ++s) {
    Store(sum[s][0], y + (first_step + s) * kStepColumns);
    Store(sum[s][1], y + (first_step + s) * kStepColumns + kLanes);
  }
}

template <WeightType T>
HWY_INLINE void TransposedTail(const WeightView& w, const float* a, float* y) {
  F16 sum[2] = {Fill(0.0F), Fill(0.0F)};
  for (size_t o = 0; o < w.rows; ++o) {
    RowTail<T> tail;
    tail.Copy(w, o);
    const typename Row<T>::Step step = tail.Open();
    const F16 factor = Fill(a[o]);
    for (size_t half = 0; half < 2; ++half) sum[half] = MulAdd(factor, step.Load(half), sum[half]);
  }
  float columns[kStepColumns];
  Store(sum[0], columns);
  Store(sum[1], columns + kLanes);
  const size_t rest = w.columns % kStepColumns;
  std::memcpy(y + (w.columns - rest), columns, rest * sizeof(float));
}

template <WeightType T>
HWY_INLINE void TransposedMatVecOf(const WeightView& w, const float* a, float* y) {
  constexpr size_t kSteps = kParts == 1 ? 4 : kParts == 2 ? 2 : 1;
  const size_t steps = w.columns / kStepColumns;
  size_t s = 0;
  for (; s + kSteps <= steps; s += kSteps) TransposedColumns<T, kSteps>(w, a, s, y);
  for (; s < steps; ++s) TransposedColumns<T, 1>(w, a, s, y);
  if constexpr (Row<T>::kHasTail) {
    if (w.columns % kStepColumns != 0) TransposedTail<T>(w, a, y);
  }
}

void MatMulTarget(const WeightView& w, const float* x, size_t x_stride, size_t x_rows, float* y,
                  size_t y_stride) {
  MatMulAny(w, x, x_stride, x_rows, y, y_stride);
}

void TransposedMatVecTarget(const WeightView& w, const float* a, float* y) {
  switch (w.type) {
    case WeightType::kF32:
      return TransposedMatVecOf<WeightType::kF32>(w, a, y);
    case WeightType::kBf16:
      return TransposedMatVecOf<WeightType::kBf16>(w, a, y);
    case WeightType::kMxfp4:
      return TransposedMatVecOf<WeightType::kMxfp4>(w, a, y);
  }
}

void ExpandRowTarget(const WeightView& w, size_t row, float* out) {
  switch (w.type) {
    case WeightType::kF32:
      return ExpandRowOf<WeightType::kF32>(w, row, out);
    case WeightType::kBf16:
      return ExpandRowOf<WeightType::kBf16>(w, row, out);
    case WeightType::kMxfp4:
      return ExpandRowOf<WeightType::kMxfp4>(w, row, out);
  }
}

float DotTarget(const float* a, const float* b, size_t n) { return SumProducts(a, b, n); }

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(MatMulTarget);
HWY_EXPORT(TransposedMatVecTarget);
HWY_EXPORT(ExpandRowTarget);
HWY_EXPORT(DotTarget);

WeightView WeightView::Rows(size_t first, size_t count) const {
  WeightView part = *this;
  part.rows = count;
  part.data = data + first * RowBytes(type, columns);
  if (type == WeightType::kMxfp4) part.scales = scales + first * (columns / kMxfp4GroupColumns);
  return part;
}

size_t RowBytes(WeightType type, size_t columns) {
  switch (type) {
    case WeightType::kF32:
      return columns * 4;
    case WeightType::kBf16:
      return columns * 2;
    case WeightType::kMxfp4:
      return columns / 2;
  }
  return 0;
}

void MatMul(const WeightView& w, const float* x, size_t x_stride, size_t x_rows, float* y,
            size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(MatMulTarget)(w, x, x_stride, x_rows, y, y_stride);
}

void TransposedMatVec(const WeightView& w, const float* a, float* y) {
  HWY_DYNAMIC_DISPATCH(TransposedMatVecTarget)(w, a, y);
}

float Dot(const float* a, const float* b, size_t n) {
  return HWY_DYNAMIC_DISPATCH(DotTarget)(a, b, n);
}

void ExpandRow(const WeightView& w, size_t row, float* out) {
  HWY_DYNAMIC_DISPATCH(ExpandRowTarget)(w, row, out);
}

bool HasNanScale(std::span<const uint8_t> scales) {
  constexpr size_t kBlock = 4096;
  for (size_t first = 0; first < scales.size(); first += kBlock) {
    uint8_t largest = 0;
    for (const uint8_t scale : scales.subspan(first, std::min(kBlock, scales.size() - first))) {
      largest = std::max(largest, scale);
    }
    if (largest == 255) return true;
  }
  return false;
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
