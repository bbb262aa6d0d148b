// Products with stored weights: the choice of instruction set, and what needs no registers.
#include "kernels/matmul.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/coded_bf16.h"
#include "base/quantized_group.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/coded_bf16-inl.h"
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

// Rows of coded weights on their way to a product, as plain bf16. What is multiplied with few rows
// of activations takes one tile of outputs at a time, so that it stays near the processor.
class DecodedRows {
 public:
  HWY_INLINE DecodedRows(const WeightView& w, size_t wanted)
      : source_(w), row_(*CodedBf16Row::Of(w.columns, w.coded_row_bytes)) {
    const size_t room = kWeightBlockBytes / sizeof(uint16_t) / std::max<size_t>(1, w.columns);
    most_ = std::max<size_t>(1, std::min(wanted, room));
    if (most_ > kBlockOutputs) most_ -= most_ % kBlockOutputs;
  }
  HWY_INLINE size_t most() const { return most_; }

  // Rows [first, first + count), 1 <= count <= most(), valid until the next call. A row is decoded
  // beyond its end, over the beginning of the next, which comes after it.
  HWY_INLINE WeightView Decode(size_t first, size_t count) {
    for (size_t r = 0; r < count; ++r) {
      const std::byte* const data = source_.data + (first + r) * source_.coded_row_bytes;
      CodedRowDecoder(row_, data).Decode(weights_ + r * source_.columns);
    }
    return {WeightType::kBf16, count, source_.columns,
            reinterpret_cast<const std::byte*>(weights_)};
  }

 private:
  const WeightView& source_;
  CodedBf16Row row_;
  size_t most_;
  alignas(
      kCacheLineBytes) uint16_t weights_[kWeightBlockBytes / sizeof(uint16_t) + kCodedStepColumns];
};

HWY_NOINLINE void MatMulCoded(const WeightView& w, const float* x, size_t x_stride, size_t x_rows,
                              float* y, size_t y_stride) {
  DecodedRows rows(w, x_rows <= kMaxTileRows ? kBlockOutputs : w.rows);
  for (size_t first = 0; first < w.rows; first += rows.most()) {
    const WeightView part = rows.Decode(first, std::min(rows.most(), w.rows - first));
    MatMulRows<WeightType::kBf16>(part, x_rows, {x, x_stride, y + first, y_stride});
  }
}

HWY_NOINLINE void TransposedMatVecCoded(const WeightView& w, const float* a, float* y) {
  std::fill_n(y, w.columns, 0.0F);
  DecodedRows rows(w, 1);
  for (size_t o = 0; o < w.rows; ++o) {
    const Row<WeightType::kBf16> row(rows.Decode(o, 1), 0);
    const F16 factor = Fill(a[o]);
    size_t c = 0;
    for (; c + kStepColumns <= w.columns; c += kStepColumns) {
      const auto step = row.Open(c / kStepColumns);
      Store(MulAdd(factor, step.Load(0), Load(y + c)), y + c);
      Store(MulAdd(factor, step.Load(1), Load(y + c + kLanes)), y + c + kLanes);
    }
    // What is decoded behind the last column is dropped.
    for (size_t half = 0; c < w.columns; c += kLanes, ++half) {
      const size_t rest = std::min(kLanes, w.columns - c);
      const F16 sum = LoadPartial(y + c, rest, 0.0F);
      StorePartial(MulAdd(factor, row.Open(c / kStepColumns).Load(half), sum), y + c, rest);
    }
  }
}

HWY_NOINLINE void ExpandRowCoded(const WeightView& w, size_t row, float* out) {
  DecodedRows rows(w, 1);
  ExpandRowOf<WeightType::kBf16>(rows.Decode(row, 1), 0, out);
}

void DecodeRowTarget(const WeightView& w, size_t row, uint16_t* out) {
  if (w.columns == 0) return;
  DecodedRows rows(w, 1);
  std::memcpy(out, rows.Decode(row, 1).data, w.columns * sizeof(uint16_t));
}

void MatMulTarget(const WeightView& w, const float* x, size_t x_stride, size_t x_rows, float* y,
                  size_t y_stride) {
  if (w.type == WeightType::kCodedBf16) return MatMulCoded(w, x, x_stride, x_rows, y, y_stride);
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
    case WeightType::kCodedBf16:
      return TransposedMatVecCoded(w, a, y);
    case WeightType::kQ8:
      return TransposedMatVecOf<WeightType::kQ8>(w, a, y);
    case WeightType::kQ4:
      return TransposedMatVecOf<WeightType::kQ4>(w, a, y);
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
    case WeightType::kCodedBf16:
      return ExpandRowCoded(w, row, out);
    case WeightType::kQ8:
      return ExpandRowOf<WeightType::kQ8>(w, row, out);
    case WeightType::kQ4:
      return ExpandRowOf<WeightType::kQ4>(w, row, out);
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
HWY_EXPORT(DecodeRowTarget);
HWY_EXPORT(DotTarget);

WeightView WeightView::Rows(size_t first, size_t count) const {
  WeightView part = *this;
  part.rows = count;
  part.data =
      data + first * (type == WeightType::kCodedBf16 ? coded_row_bytes : RowBytes(type, columns));
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
    case WeightType::kCodedBf16:
      return CodedBf16Row{columns, 0}.bytes();
    case WeightType::kQ8:
      return columns / kQuantizedGroupColumns * kQ8GroupBytes;
    case WeightType::kQ4:
      return columns / kQuantizedGroupColumns * kQ4GroupBytes;
  }
  return 0;
}

void MatMul(const WeightView& w, const float* x, size_t x_stride, size_t x_rows, float* y,
            size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(MatMulTarget)(w, x, x_stride, x_rows, y, y_stride);
}

size_t MatMulPanelBytes(size_t x_rows) {
  return x_rows < HWY_NAMESPACE::kLeastPanelRows ? 0 : sizeof(HWY_NAMESPACE::Panel);
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

void DecodeRow(const WeightView& w, size_t row, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(DecodeRowTarget)(w, row, out);
}

std::optional<size_t> FindDamagedRow(const WeightView& w) {
  const auto row = CodedBf16Row::Of(w.columns, w.coded_row_bytes);
  const size_t plane_bytes = row->plane_bytes();
  for (size_t r = 0; r < w.rows; ++r) {
    const std::byte* const data = w.data + r * w.coded_row_bytes;
    const auto word = [&](size_t plane, size_t at, size_t bytes) {
      uint64_t bits = 0;
      std::memcpy(&bits, data + plane * plane_bytes + at, bytes);
      return bits;
    };
    const auto escapes = [&](size_t at, size_t bytes) {
      return static_cast<size_t>(
          std::popcount(word(0, at, bytes) & word(1, at, bytes) & word(2, at, bytes)));
    };
    size_t count = 0;
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= plane_bytes; at += sizeof(uint64_t)) {
      count += escapes(at, sizeof(uint64_t));
    }
    if (at < plane_bytes) count += escapes(at, plane_bytes - at);
    const std::byte said = data[row->bytes() - 1];
    if (count > row->escapes || static_cast<std::byte>(count) != said) return r;
  }
  return std::nullopt;
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
