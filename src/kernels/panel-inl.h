// Products of many rows, whose weights are widened once for all of them.
#if defined(KIMI_K3_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_PANEL_INL_H_
#undef KIMI_K3_KERNELS_PANEL_INL_H_
#else
#define KIMI_K3_KERNELS_PANEL_INL_H_
#endif

#include <algorithm>

#include "base/aligned_buffer.h"
#include "kernels/matmul.h"
#include "kernels/row_tile-inl.h"
#include "kernels/simd-inl.h"
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// A panel is the weights of some outputs and columns, widened once for many rows. It stays in the
// second-level cache while all row tiles pass over it; a row tile's own columns of activations stay
// in the first-level cache meanwhile.
inline constexpr size_t kPanelOutputs = 48;
inline constexpr size_t kPanelColumns = 768;
// Rows that pass over one panel; their partial sums wait in memory for the next.
inline constexpr size_t kPanelRows = 96;
inline constexpr size_t kLeastPanelRows = 12;
// Of row tiles that are as equal as they can be.
inline constexpr size_t kLeastPanelTileRows = 4;

struct Panel {
  alignas(kCacheLineBytes) float weights[kPanelOutputs * kPanelColumns];
  alignas(kCacheLineBytes) float sums[kPanelRows * kPanelOutputs * kLanes];
};

// Which weights a panel has.
struct PanelPlace {
  size_t first_output;
  size_t outputs;  // at most kPanelOutputs
  size_t first_column;
  size_t columns;  // at most kPanelColumns, whole steps
  bool begins_row;
  bool ends_row;
};

HWY_INLINE PanelPlace PlaceOf(const WeightView& w, size_t first_output, size_t first_column) {
  const size_t columns = std::min(kPanelColumns, w.columns - first_column);
  return {first_output,      std::min(kPanelOutputs, w.rows - first_output),
          first_column,      columns,
          first_column == 0, first_column + columns == w.columns};
}

// The panel after `place`; the last is followed by itself.
HWY_INLINE PanelPlace After(const WeightView& w, const PanelPlace& place) {
  if (!place.ends_row) return PlaceOf(w, place.first_output, place.first_column + place.columns);
  const size_t next = place.first_output + place.outputs;
  return next < w.rows ? PlaceOf(w, next, 0) : place;
}

// Sums of a tile, zero at the beginning of a row and else from where they wait.
template <size_t R, size_t O>
HWY_INLINE void LoadSums(const PanelPlace& place, const float* sums, F16 (&sum)[R][O]) {
  KIMI_K3_UNROLL
  for (size_t i = 0; i < R * O; ++i) {
    sum[i / O][i % O] = place.begins_row ? Fill(0.0F) : Load(sums + i * kLanes);
  }
}

template <size_t R, size_t O>
HWY_INLINE void KeepSums(const PanelPlace& place, const F16 (&sum)[R][O], size_t count,
                         const Activations& act, float* sums) {
  if (place.ends_row) {
    KIMI_K3_UNROLL
    for (size_t r = 0; r < R; ++r) {
      StoreSums<LaneOrder<WeightType::kF32, R>, O>(sum[r], count, act.y + r * act.y_stride);
    }
    return;
  }
  KIMI_K3_UNROLL
  for (size_t i = 0; i < R * O; ++i) Store(sum[i / O][i % O], sums + i * kLanes);
}

// Adds the panel's columns of R rows and O outputs to their partial sums, `sums` [R, O, 16].
// next: activations of a later tile, of which half as many columns are brought nearer.
template <size_t R, size_t O>
HWY_NOINLINE void PanelTile(const float* weights, const PanelPlace& place, size_t count,
                            const Activations& act, float* sums, const float* next) {
  using Order = LaneOrder<WeightType::kF32, R>;
  F16 sum[R][O];
  LoadSums(place, sums, sum);
  for (size_t c = 0; c < place.columns; c += kStepColumns) {
    __builtin_prefetch(next + c / 2, 0, 2);
    typename Order::Step open[O];
    KIMI_K3_UNROLL
    for (size_t o = 0; o < O; ++o) {
      open[o] =
          typename Order::Step(reinterpret_cast<const std::byte*>(weights + o * kPanelColumns + c));
    }
    AddStep<Order, R, O>(open, act.x + c, act.x_stride, sum);
  }
  KeepSums(place, sum, count, act, sums);
}

// Widens 32 columns of O outputs.
template <WeightType T, size_t O>
HWY_INLINE void WidenStep(const Row<T> (&rows)[O], size_t step, float* to) {
  KIMI_K3_UNROLL
  for (size_t o = 0; o < O; ++o) {
    const typename Row<T>::Step open = rows[o].Open(step);
    Store(open.Load(0), to + o * kPanelColumns);
    Store(open.Load(1), to + o * kPanelColumns + kLanes);
  }
}

// PanelTile for the first row tile of a panel, from the weights as they are stored, which it widens
// for all: stores to the second-level cache are slow, and hidden behind its products. Types that
// need registers for their decoding are widened a step ahead.
template <WeightType T, size_t R, size_t O>
HWY_NOINLINE void WideningTile(const WeightView& w, const PanelPlace& place, size_t first,
                               size_t count, const Activations& act, float* sums, float* weights,
                               const std::byte* next) {
  constexpr bool kAhead = T != WeightType::kBf16;
  using Order = ColumnOrder<typename Row<kAhead ? WeightType::kF32 : T>::Step>;
  Row<T> rows[O];
  for (size_t o = 0; o < O; ++o) rows[o] = Row<T>(w, first + std::min(o, count - 1));
  F16 sum[R][O];
  LoadSums(place, sums, sum);
  const size_t row_bytes = RowBytes(T, w.columns);
  const size_t first_step = place.first_column / kStepColumns;
  const size_t steps = place.columns / kStepColumns;
  if constexpr (kAhead) WidenStep(rows, first_step, weights);
  for (size_t s = 0; s < steps; ++s) {
    KIMI_K3_UNROLL
    for (size_t o = 0; o < O; ++o) {
      __builtin_prefetch(next + o * row_bytes + s * Row<T>::kStepBytes, 0, 2);
    }
    float* const at = weights + s * kStepColumns;
    const float* const x = act.x + s * kStepColumns;
    typename Order::Step open[O];
    if constexpr (kAhead) {
      if (s + 1 < steps) WidenStep(rows, first_step + s + 1, at + kStepColumns);
      KIMI_K3_UNROLL
      for (size_t o = 0; o < O; ++o) {
        open[o] = typename Order::Step(reinterpret_cast<const std::byte*>(at + o * kPanelColumns));
      }
      AddStep<Order, R, O>(open, x, act.x_stride, sum);
    } else {
      KIMI_K3_UNROLL
      for (size_t o = 0; o < O; ++o) {
        open[o] = rows[o].template Open<typename Order::Step>(first_step + s);
      }
      AddStep<Order, R, O>(open, x, act.x_stride, sum,
                           [&](size_t o, size_t half, const F16& wide)
                               HWY_ATTR { Store(wide, at + o * kPanelColumns + half * kLanes); });
    }
  }
  KeepSums(place, sum, count, act, sums);
}

// All outputs of a panel for one row tile after another.
template <WeightType T>
class PanelProduct {
 public:
  HWY_INLINE PanelProduct(const WeightView& w, size_t x_rows, const Activations& act)
      : w_(w), x_rows_(x_rows), act_(act) {}

  HWY_INLINE void Add(const PanelPlace& place) {
    place_ = place;
    next_ = After(w_, place);
    size_t tiles = (x_rows_ + kMaxTileRows - 1) / kMaxTileRows;
    for (size_t row = 0; tiles != 0; --tiles) {
      const size_t rows = (x_rows_ - row + tiles - 1) / tiles;
      RowTile(row, rows);
      row += rows;
    }
  }

 private:
  HWY_INLINE Activations Of(size_t row, size_t output) const {
    return {act_.x + row * act_.x_stride + place_.first_column, act_.x_stride,
            act_.y + row * act_.y_stride + place_.first_output + output, act_.y_stride};
  }
  template <size_t R = kMaxTileRows>
  HWY_INLINE void RowTile(size_t first, size_t rows) {
    if constexpr (R > kLeastPanelTileRows) {
      if (rows < R) return RowTile<R - 1>(first, rows);
    }
    constexpr size_t kOutputs = TileOutputs(WeightType::kF32, R);
    static_assert(kPanelOutputs % kOutputs == 0);
    for (size_t o = 0; o < place_.outputs; o += kOutputs) {
      float* const sums = panel_.sums + (first * kPanelOutputs + o * R) * kLanes;
      float* const weights = panel_.weights + o * kPanelColumns;
      const size_t count = std::min(kOutputs, place_.outputs - o);
      if (first == 0) {
        WideningTile<T, R, kOutputs>(w_, place_, place_.first_output + o, count, Of(first, o), sums,
                                     weights, WeightsAfter(o));
      } else {
        PanelTile<R, kOutputs>(weights, place_, count, Of(first, o), sums,
                               RowsAfter(first + R, o / kOutputs));
      }
    }
  }
  HWY_INLINE const std::byte* WeightsAfter(size_t output) const {
    const size_t row = next_.first_output + std::min(output, next_.outputs - 1);
    return w_.data + row * RowBytes(T, w_.columns) + RowBytes(T, next_.first_column);
  }
  // What the tile-th tile of a row tile is to bring near of the next one, which begins at `row`.
  HWY_INLINE const float* RowsAfter(size_t row, size_t tile) const {
    const bool last = row >= x_rows_;
    const size_t column = last ? next_.first_column : place_.first_column;
    row = std::min((last ? 0 : row) + tile / 2, x_rows_ - 1);
    return act_.x + row * act_.x_stride + column + tile % 2 * (place_.columns / 2);
  }

  const WeightView& w_;
  size_t x_rows_;
  Activations act_;
  PanelPlace place_;
  PanelPlace next_;
  Panel panel_;
};

// The product for kLeastPanelRows rows and more of weights whose rows have whole steps.
template <WeightType T>
HWY_NOINLINE void MatMulPanels(const WeightView& w, size_t x_rows, const Activations& act) {
  const size_t blocks = (x_rows + kPanelRows - 1) / kPanelRows;
  for (size_t block = 0, first = 0; block < blocks; ++block) {
    const size_t rows = (x_rows - first) / (blocks - block);
    PanelProduct<T> product(
        w, rows,
        {act.x + first * act.x_stride, act.x_stride, act.y + first * act.y_stride, act.y_stride});
    for (size_t o = 0; o < w.rows; o += kPanelOutputs) {
      for (size_t c = 0; c < w.columns; c += kPanelColumns) product.Add(PlaceOf(w, o, c));
    }
    first += rows;
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
