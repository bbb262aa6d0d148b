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
// in the first-level cache meanwhile. The weights of a tile lie in the order in which it reads
// them: 32 columns of its first output, of its second, and so on, then the next 32.
inline constexpr size_t kPanelOutputs = 48;
inline constexpr size_t kPanelColumns = 768;
// Rows that pass over one panel; their partial sums wait in memory for the next.
inline constexpr size_t kPanelRows = 96;
inline constexpr size_t kLeastPanelRows = 12;
// Of row tiles that are as equal as they can be.
inline constexpr size_t kLeastPanelTileRows = 4;
inline constexpr size_t kPanelTileOutputs = TileOutputs(WeightType::kF32, kMaxTileRows);
static_assert(kPanelOutputs % kPanelTileOutputs == 0);
static_assert(kPanelColumns % kStepColumns == 0);
// What one tile brings near of the weights to come: more at once would take the buffers that its
// own weights pass through.
inline constexpr size_t kSliceBytes = 512;
// Narrower registers load so much for each product that the first row tile had better do it all.
inline constexpr bool kSlicesWeights = kParts == 1;

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

// What a tile brings into the second-level cache for tiles to come: a line of activations each
// step, and weights `weights_step` bytes further on each step. (By reference to tiles: a copy on
// the stack would wait for all stores before it.)
struct Nearer {
  const float* x;
  const std::byte* weights;
  size_t weights_step;
};

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
template <size_t R, size_t O>
HWY_NOINLINE void PanelTile(const float* weights, const PanelPlace& place, size_t count,
                            const Activations& act, float* sums, const Nearer& nearer) {
  using Order = LaneOrder<WeightType::kF32, R>;
  F16 sum[R][O];
  LoadSums(place, sums, sum);
  [[maybe_unused]] const std::byte* near_weights = nearer.weights;
  for (size_t c = 0; c < place.columns; c += kStepColumns) {
    __builtin_prefetch(nearer.x + c / 2, 0, 2);
    if constexpr (kSlicesWeights) {
      __builtin_prefetch(near_weights, 0, 2);
      near_weights += nearer.weights_step;
    }
    typename Order::Step open[O];
    KIMI_K3_UNROLL
    for (size_t o = 0; o < O; ++o) {
      const float* const of_output = weights + c * O + o * kStepColumns;
      open[o] = typename Order::Step(reinterpret_cast<const std::byte*>(of_output));
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
    Store(open.Load(0), to + o * kStepColumns);
    Store(open.Load(1), to + o * kStepColumns + kLanes);
  }
}

// PanelTile for the first row tile of a panel, from the weights as they are stored, which it widens
// for all: stores to the second-level cache are slow, and hidden behind its products. Types that
// need registers for their decoding are widened a step ahead. next: weights to bring nearer, or
// nullptr.
template <WeightType T, size_t R, size_t O>
HWY_NOINLINE void WideningTile(const WeightView& w, const PanelPlace& place, size_t first,
                               size_t count, const Activations& act, float* sums, float* weights,
                               const std::byte* next) {
  constexpr bool kAhead = T != WeightType::kBf16;
  constexpr size_t kStep = O * kStepColumns;
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
    if (next != nullptr) {
      KIMI_K3_UNROLL
      for (size_t o = 0; o < O; ++o) {
        __builtin_prefetch(next + o * row_bytes + s * Row<T>::kStepBytes, 0, 2);
      }
    }
    float* const at = weights + s * kStep;
    const float* const x = act.x + s * kStepColumns;
    typename Order::Step open[O];
    if constexpr (kAhead) {
      if (s + 1 < steps) WidenStep(rows, first_step + s + 1, at + kStep);
      KIMI_K3_UNROLL
      for (size_t o = 0; o < O; ++o) {
        open[o] = typename Order::Step(reinterpret_cast<const std::byte*>(at + o * kStepColumns));
      }
      AddStep<Order, R, O>(open, x, act.x_stride, sum);
    } else {
      KIMI_K3_UNROLL
      for (size_t o = 0; o < O; ++o) {
        open[o] = rows[o].template Open<typename Order::Step>(first_step + s);
      }
      AddStep<Order, R, O>(open, x, act.x_stride, sum,
                           [&](size_t o, size_t half, const F16& wide)
                               HWY_ATTR { Store(wide, at + o * kStepColumns + half * kLanes); });
    }
  }
  KeepSums(place, sum, count, act, sums);
}

// The largest part when n is cut into as few parts of at most `most` as can be, about equal ones,
// each but the last a multiple of `unit`, as `most` is. REQUIRES: n > 0.
constexpr size_t EqualPart(size_t n, size_t most, size_t unit) {
  const size_t parts = (n + most - 1) / most;
  return (n + parts * unit - 1) / (parts * unit) * unit;
}

// The product of some rows, at most kPanelRows, with all weights, one panel after another.
template <WeightType T>
class PanelProduct {
 public:
  HWY_INLINE PanelProduct(const WeightView& w, size_t x_rows, const Activations& act)
      : w_(w), x_rows_(x_rows), act_(act), row_bytes_(RowBytes(T, w.columns)) {
    most_outputs_ = EqualPart(w.rows, kPanelOutputs, kPanelTileOutputs);
    most_columns_ = EqualPart(w.columns, kPanelColumns, kStepColumns);
  }

  HWY_INLINE void Run() {
    next_ = Place(0, 0);
    do {
      place_ = next_;
      next_ = After(place_);
      Add();
    } while (next_.first_output != place_.first_output ||
             next_.first_column != place_.first_column);
  }

 private:
  HWY_INLINE PanelPlace Place(size_t first_output, size_t first_column) const {
    const size_t columns = std::min(most_columns_, w_.columns - first_column);
    return {first_output,      std::min(most_outputs_, w_.rows - first_output),
            first_column,      columns,
            first_column == 0, first_column + columns == w_.columns};
  }
  // The panel after `place`; the last is followed by itself.
  HWY_INLINE PanelPlace After(const PanelPlace& place) const {
    if (!place.ends_row) return Place(place.first_output, place.first_column + place.columns);
    const size_t next = place.first_output + place.outputs;
    return next < w_.rows ? Place(next, 0) : place;
  }

  // All outputs of the panel for one row tile after another.
  HWY_INLINE void Add() {
    const size_t tiles = (x_rows_ + kMaxTileRows - 1) / kMaxTileRows;
    groups_ = (place_.outputs + kPanelTileOutputs - 1) / kPanelTileOutputs;
    slice_bytes_ = RowBytes(T, next_.columns);
    slices_ = std::min(groups_ * (tiles - 1) / next_.outputs,
                       kSlicesWeights ? (slice_bytes_ + kSliceBytes - 1) / kSliceBytes : 0);
    if (slices_ != 0) slice_bytes_ /= slices_;
    slice_step_ = slice_bytes_ * kStepColumns / place_.columns;
    slice_ = 0;
    slice_output_ = slices_ == 0 ? next_.outputs : 0;
    for (size_t tile = 0, row = 0; tile < tiles; ++tile) {
      const size_t rows = (x_rows_ - row + tiles - tile - 1) / (tiles - tile);
      RowTile(tile, row, rows);
      row += rows;
    }
  }

  template <size_t R = kMaxTileRows>
  HWY_INLINE void RowTile(size_t tile, size_t first, size_t rows) {
    if constexpr (R > kLeastPanelTileRows) {
      if (rows < R) return RowTile<R - 1>(tile, first, rows);
    }
    constexpr size_t kOutputs = kPanelTileOutputs;
    for (size_t g = 0; g < groups_; ++g) {
      const size_t o = g * kOutputs;
      float* const sums = panel_.sums + (first * kPanelOutputs + o * R) * kLanes;
      float* const weights = panel_.weights + o * kPanelColumns;
      const size_t count = std::min(kOutputs, place_.outputs - o);
      if (tile == 0) {
        WideningTile<T, R, kOutputs>(w_, place_, place_.first_output + o, count, Of(first, o), sums,
                                     weights, slices_ == 0 ? NextWeights(o) : nullptr);
      } else {
        PanelTile<R, kOutputs>(weights, place_, count, Of(first, o), sums,
                               NextSlice(NextRows(first + R, g)));
      }
    }
  }

  HWY_INLINE Activations Of(size_t row, size_t output) const {
    return {act_.x + row * act_.x_stride + place_.first_column, act_.x_stride,
            act_.y + row * act_.y_stride + place_.first_output + output, act_.y_stride};
  }
  HWY_INLINE const std::byte* NextWeights(size_t output) const {
    const size_t row = next_.first_output + std::min(output, next_.outputs - 1);
    return w_.data + row * row_bytes_ + RowBytes(T, next_.first_column);
  }
  // Half a row of activations of the row tile that begins at `row`.
  HWY_INLINE const float* NextRows(size_t row, size_t group) const {
    const bool last = row >= x_rows_;
    const size_t column = last ? next_.first_column : place_.first_column;
    row = std::min((last ? 0 : row) + group / 2, x_rows_ - 1);
    return act_.x + row * act_.x_stride + column + group % 2 * (place_.columns / 2);
  }
  // The next slice of the next panel's weights; after the last, what the panel has already.
  HWY_INLINE Nearer NextSlice(const float* x) {
    if (!kSlicesWeights || slice_output_ >= next_.outputs) {
      return {x, reinterpret_cast<const std::byte*>(panel_.weights), 0};
    }
    const std::byte* const weights = NextWeights(slice_output_) + slice_ * slice_bytes_;
    if (++slice_ == slices_) {
      slice_ = 0;
      ++slice_output_;
    }
    return {x, weights, slice_step_};
  }

  const WeightView& w_;
  size_t x_rows_;
  Activations act_;
  size_t row_bytes_;
  size_t most_outputs_;
  size_t most_columns_;
  PanelPlace place_ = {};
  PanelPlace next_ = {};
  size_t groups_ = 0;
  size_t slices_ = 0;       // of each row of the next panel, one a tile; 0 where tiles are too few
  size_t slice_bytes_ = 0;  // of one
  size_t slice_step_ = 0;
  size_t slice_output_ = 0;
  size_t slice_ = 0;
  Panel panel_;
};

// The product for kLeastPanelRows rows and more of weights whose rows have whole steps.
template <WeightType T>
HWY_NOINLINE void MatMulPanels(const WeightView& w, size_t x_rows, const Activations& act) {
  if (w.rows == 0) return;
  const size_t blocks = (x_rows + kPanelRows - 1) / kPanelRows;
  for (size_t block = 0, first = 0; block < blocks; ++block) {
    const size_t rows = (x_rows - first) / (blocks - block);
    PanelProduct<T>(
        w, rows,
        {act.x + first * act.x_stride, act.x_stride, act.y + first * act.y_stride, act.y_stride})
        .Run();
    first += rows;
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
