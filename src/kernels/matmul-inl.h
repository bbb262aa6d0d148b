// Every product of activations with stored weights.
#if defined(KIMI_K3_KERNELS_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_MATMUL_INL_H_
#undef KIMI_K3_KERNELS_MATMUL_INL_H_
#else
#define KIMI_K3_KERNELS_MATMUL_INL_H_
#endif

#include <algorithm>

#include "kernels/matmul.h"
#include "kernels/panel-inl.h"
#include "kernels/row_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Weights that stay in the second-level cache while the row tiles pass over them.
inline constexpr size_t kWeightBlockBytes = size_t{256} << 10;
inline constexpr size_t kBlockOutputs = 8;

template <WeightType T>
HWY_INLINE void MatMulRows(const WeightView& w, size_t x_rows, const Activations& act) {
  if constexpr (T != WeightType::kF32) {
    if (x_rows >= kLeastPanelRows && w.columns != 0 && w.columns % kStepColumns == 0) {
      return MatMulPanels<T>(w, x_rows, act);
    }
  }
  size_t block = w.rows;
  if (x_rows > kMaxTileRows) {
    const size_t row_bytes = std::max<size_t>(1, RowBytes(T, w.columns));
    block = std::max<size_t>(1, kWeightBlockBytes / row_bytes / kBlockOutputs) * kBlockOutputs;
  }
  for (size_t first = 0; first < w.rows; first += block) {
    const size_t last = std::min(w.rows, first + block);
    for (size_t r = 0; r < x_rows; r += kMaxTileRows) {
      const Activations part{act.x + r * act.x_stride, act.x_stride, act.y + r * act.y_stride,
                             act.y_stride};
      RowTile<T>(w, first, last, std::min(kMaxTileRows, x_rows - r), part);
    }
  }
}

// The product of matmul.h.
HWY_INLINE void MatMulAny(const WeightView& w, const float* x, size_t x_stride, size_t x_rows,
                          float* y, size_t y_stride) {
  const Activations act{x, x_stride, y, y_stride};
  switch (w.type) {
    case WeightType::kF32:
      return MatMulRows<WeightType::kF32>(w, x_rows, act);
    case WeightType::kBf16:
      return MatMulRows<WeightType::kBf16>(w, x_rows, act);
    case WeightType::kMxfp4:
      return MatMulRows<WeightType::kMxfp4>(w, x_rows, act);
    case WeightType::kCodedBf16:
      return;  // decoded before it comes here
    case WeightType::kQ8:
      return MatMulRows<WeightType::kQ8>(w, x_rows, act);
    case WeightType::kQ4:
      return MatMulRows<WeightType::kQ4>(w, x_rows, act);
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
