// Register tiles of rows x outputs, from weights as they are stored.
#if defined(KIMI_K3_KERNELS_ROW_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_ROW_TILE_INL_H_
#undef KIMI_K3_KERNELS_ROW_TILE_INL_H_
#else
#define KIMI_K3_KERNELS_ROW_TILE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.h"
#include "kernels/matmul.h"
#include "kernels/simd-inl.h"
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Rows of activations per tile.
inline constexpr size_t kMaxTileRows = 6;

// Outputs per tile of `rows` rows: as many as keep the partial sums in registers (24 of 32, or 12
// of 16), and enough independent chains to hide the latency of a multiply-add.
// Groups of integers need registers for their decoding too: with more outputs the sums of one or
// two rows would go through memory.
constexpr size_t TileOutputs(WeightType type, size_t rows) {
  if (kParts == 1) return rows <= 2 ? 8 : 4;
  const bool integers = type == WeightType::kQ8 || type == WeightType::kQ4;
  if (kParts == 2 && rows <= 2 && integers) return 2;
  const size_t sums = (kParts == 2 ? 12 : 24) / kParts;
  return rows == 1 ? 4 : sums / rows;
}

// Activation rows and where the results go.
struct Activations {
  const float* x;
  size_t x_stride;
  float* y;
  size_t y_stride;
};

// How weights and activations meet in tiles of R rows: in the order of columns, or in another that
// the type decodes faster, where few rows share the cost of reordering the activations. The partial
// sums are the same, in other lanes.
template <class S>
struct ColumnOrder {
  using Step = S;
  HWY_INLINE static F16 Activations(const F16& x) { return x; }
  HWY_INLINE static F16 Sums(const F16& sum) { return sum; }
};
template <WeightType T, size_t R>
struct LaneOrder : ColumnOrder<typename Row<T>::Step> {};
#if HWY_MAX_BYTES == 64
template <size_t R>
requires(R <= 2) struct LaneOrder<WeightType::kMxfp4, R> {
  using Step = Mxfp4InterleavedGroup;
  HWY_INLINE static F16 Activations(const F16& x) { return Interleave(x); }
  HWY_INLINE static F16 Sums(const F16& sum) { return Deinterleave(sum); }
};
#endif

// Takes the weights of a tile as they are widened; here, nowhere.
struct KeepNothing {
  HWY_INLINE void operator()(size_t, size_t, const F16&) const {}
};

// Adds 32 columns of R rows and O outputs to the partial sums. keep(o, half, weights) gets the
// widened weights.
template <class Order, size_t R, size_t O, class Keep = KeepNothing>
HWY_INLINE void AddStep(const typename Order::Step (&steps)[O], const float* x, size_t x_stride,
                        F16 (&sum)[R][O], const Keep& keep = {}) {
  KIMI_K3_UNROLL
  for (size_t half = 0; half < 2; ++half) {
    F16 weights[O];
    KIMI_K3_UNROLL
    for (size_t o = 0; o < O; ++o) {
      weights[o] = steps[o].Load(half);
      keep(o, half, weights[o]);
    }
    KIMI_K3_UNROLL
    for (size_t r = 0; r < R; ++r) {
      const F16 activations = Order::Activations(Load(x + r * x_stride + half * kLanes));
      KIMI_K3_UNROLL
      for (size_t o = 0; o < O; ++o) sum[r][o] = MulAdd(weights[o], activations, sum[r][o]);
    }
  }
}

// Adds up the partial sums of one row and writes the first `count` of the O outputs.
template <class Order, size_t O>
HWY_INLINE void StoreSums(const F16 (&sum)[O], size_t count, float* y) {
  if (O % 4 == 0 && count == O) {
    KIMI_K3_UNROLL
    for (size_t o = 0; o + 4 <= O; o += 4) {
      const auto sums = SumTrees(Order::Sums(sum[o]), Order::Sums(sum[o + 1]),
                                 Order::Sums(sum[o + 2]), Order::Sums(sum[o + 3]));
      hn::StoreU(sums, hn::CappedTag<float, 4>(), y + o);
    }
    return;
  }
  KIMI_K3_UNROLL
  for (size_t o = 0; o < O; ++o) {
    if (o < count) y[o] = SumTree(Order::Sums(sum[o]));
  }
}

// Brings the weights of the next tile into the second-level cache while this one is multiplied:
// rows are too short for the processor to foresee them. The last tile of a view fetches itself.
template <WeightType T, size_t O>
class NextTile {
 public:
  HWY_INLINE NextTile(const WeightView& w, size_t first) {
    const size_t row = first + O < w.rows ? first + O : first;
    data_ = w.data + row * RowBytes(T, w.columns);
    if constexpr (T == WeightType::kMxfp4) {
      scales_ = w.scales + row * (w.columns / kMxfp4GroupColumns);
    }
  }
  HWY_INLINE void Prefetch(size_t step) const {
    constexpr size_t kBytes = O * Row<T>::kStepBytes;
    KIMI_K3_UNROLL
    for (size_t line = 0; line < kBytes; line += kCacheLineBytes) {
      __builtin_prefetch(data_ + step * kBytes + line, 0, 2);
    }
    if constexpr (T == WeightType::kMxfp4) __builtin_prefetch(scales_ + step * O, 0, 2);
  }

 private:
  const std::byte* data_;
  const uint8_t* scales_ = nullptr;
};

// R rows of x times the outputs first .. first + count - 1, 1 <= count <= O. Where count is less
// than O the last output is computed again and dropped.
template <WeightType T, size_t R, size_t O>
HWY_NOINLINE void Tile(const WeightView& w, size_t first, size_t count, const Activations& act) {
  using Order = LaneOrder<T, R>;
  using Step = typename Order::Step;
  Row<T> rows[O];
  for (size_t o = 0; o < O; ++o) rows[o] = Row<T>(w, first + std::min(o, count - 1));

  F16 sum[R][O];
  KIMI_K3_UNROLL
  for (size_t r = 0; r < R; ++r) {
    KIMI_K3_UNROLL
    for (size_t o = 0; o < O; ++o) sum[r][o] = Fill(0.0F);
  }
  const size_t steps = w.columns / kStepColumns;
  const NextTile<T, O> next(w, first);
  for (size_t s = 0; s < steps; ++s) {
    next.Prefetch(s);
    Step open[O];
    KIMI_K3_UNROLL
    for (size_t o = 0; o < O; ++o) open[o] = rows[o].template Open<Step>(s);
    AddStep<Order, R, O>(open, act.x + s * kStepColumns, act.x_stride, sum);
  }
  if constexpr (Row<T>::kHasTail) {
    const size_t rest = w.columns % kStepColumns;
    if (rest != 0) {
      RowTail<T> tails[O];
      Step open[O];
      for (size_t o = 0; o < O; ++o) {
        tails[o].Copy(w, first + std::min(o, count - 1));
        open[o] = tails[o].Open();
      }
      float x_tail[R * kStepColumns];
      std::fill_n(x_tail, R * kStepColumns, kNoColumn);
      for (size_t r = 0; r < R; ++r) {
        std::memcpy(x_tail + r * kStepColumns, act.x + r * act.x_stride + steps * kStepColumns,
                    rest * sizeof(float));
      }
      AddStep<Order, R, O>(open, x_tail, kStepColumns, sum);
    }
  }
  KIMI_K3_UNROLL
  for (size_t r = 0; r < R; ++r) {
    StoreSums<Order, O>(sum[r], count, act.y + r * act.y_stride + first);
  }
}

// Outputs first .. last - 1 for `rows` <= kMaxTileRows rows.
template <WeightType T, size_t R = kMaxTileRows>
HWY_INLINE void RowTile(const WeightView& w, size_t first, size_t last, size_t rows,
                        const Activations& act) {
  if constexpr (R > 1) {
    if (rows < R) return RowTile<T, R - 1>(w, first, last, rows, act);
  }
  constexpr size_t kOutputs = TileOutputs(T, R);
  for (size_t o = first; o < last; o += kOutputs) {
    Tile<T, R, kOutputs>(w, o, std::min(kOutputs, last - o), act);
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
