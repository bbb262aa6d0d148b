// Latent attention: blocks of cached rows, a running softmax per head, loads shared by the heads.
#include "kernels/latent_attention.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/latent_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cache_rows-inl.h"
#include "kernels/elementwise-inl.h"
#include "kernels/latent_attention.h"
#include "kernels/math-inl.h"
#include "kernels/matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Positions per block: part of the arithmetic, since the running sums are rescaled between blocks.
inline constexpr size_t kBlockPositions = 32;

// What the heads carry from block to block, one number a head; lives in the caller's scratch.
struct HeadStates {
  float* largest;  // score so far
  float* sum;      // of e^(score - largest)
  float* rescale;  // what the latest block did to older sums: e^(old largest - largest)
};
inline constexpr size_t kHeadFloats = kBlockPositions + 3;

struct FactorOperation {
  F16 factor;
  HWY_INLINE F16 operator()(const F16& x) const { return Mul(x, factor); }
};

// Scores of one block become e^(score - largest so far); the head's sum is brought up to date.
HWY_INLINE void UpdateHead(float* scores, size_t count, float scale, const HeadStates& states,
                           size_t h) {
  float largest = states.largest[h];
  for (size_t p = 0; p < count; ++p) {
    scores[p] *= scale;
    largest = scores[p] > largest ? scores[p] : largest;
  }
  states.rescale[h] = Exp(states.largest[h] - largest);
  states.largest[h] = largest;
  float padded[kBlockPositions] = {};
  std::memcpy(padded, scores, count * sizeof(float));
  const F16 shift = Fill(largest);
  for (size_t p = 0; p < kBlockPositions; p += kLanes) {
    Store(Exp(Sub(Load(padded + p), shift)), padded + p);
  }
  std::memcpy(scores, padded, count * sizeof(float));
  float sum = states.sum[h] * states.rescale[h];
  for (size_t p = 0; p < count; ++p) sum += scores[p];
  states.sum[h] = sum;
}

// The weighted sum of one step of 32 columns for H heads.
template <WeightType T, size_t H>
HWY_INLINE void AddValues(const WeightView& rows, size_t step, const float* weights,
                          const float* rescales, float* out, size_t out_stride) {
  F16 sum[H][2];
  KIMI_K3_UNROLL
  for (size_t h = 0; h < H; ++h) {
    const F16 rescale = Fill(rescales[h]);
    const float* const old = out + h * out_stride + step * kStepColumns;
    sum[h][0] = Mul(Load(old), rescale);
    sum[h][1] = Mul(Load(old + kLanes), rescale);
  }
  for (size_t p = 0; p < rows.rows; ++p) {
    const typename Row<T>::Step columns = Row<T>(rows, p).Open(step);
    const F16 first = columns.Load(0);
    const F16 second = columns.Load(1);
    KIMI_K3_UNROLL
    for (size_t h = 0; h < H; ++h) {
      const F16 weight = Fill(weights[h * kBlockPositions + p]);
      sum[h][0] = MulAdd(weight, first, sum[h][0]);
      sum[h][1] = MulAdd(weight, second, sum[h][1]);
    }
  }
  KIMI_K3_UNROLL
  for (size_t h = 0; h < H; ++h) {
    float* const updated = out + h * out_stride + step * kStepColumns;
    Store(sum[h][0], updated);
    Store(sum[h][1], updated + kLanes);
  }
}

HWY_INLINE float CachedNumber(const WeightView& rows, size_t p, size_t j) {
  if (rows.type == WeightType::kF32) {
    float value;
    std::memcpy(&value, rows.data + (p * rows.columns + j) * sizeof value, sizeof value);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, rows.data + (p * rows.columns + j) * sizeof half, sizeof half);
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Columns of the latent beyond the last whole step, one by one.
HWY_INLINE void AddLastValues(const WeightView& rows, size_t first, size_t latent,
                              const float* weights, float rescale, float* out) {
  for (size_t j = first; j < latent; ++j) {
    auto sum = hn::Set(hn::CappedTag<float, 1>(), out[j] * rescale);
    for (size_t p = 0; p < rows.rows; ++p) {
      sum = hn::MulAdd(hn::Set(hn::CappedTag<float, 1>(), weights[p]),
                       hn::Set(hn::CappedTag<float, 1>(), CachedNumber(rows, p, j)), sum);
    }
    out[j] = hn::GetLane(sum);
  }
}

template <WeightType T>
HWY_INLINE void AttendBlock(const WeightView& rows, size_t latent, const float* q, size_t heads,
                            float scale, float* scores, const HeadStates& states, float* out) {
  MatMulRows<T>(rows, heads, Activations{q, rows.columns, scores, kBlockPositions});
  for (size_t h = 0; h < heads; ++h) {
    UpdateHead(scores + h * kBlockPositions, rows.rows, scale, states, h);
  }
  constexpr size_t kHeads = kParts == 1 ? 8 : 4;
  const size_t steps = latent / kStepColumns;
  size_t h = 0;
  for (; h + kHeads <= heads; h += kHeads) {
    for (size_t s = 0; s < steps; ++s) {
      AddValues<T, kHeads>(rows, s, scores + h * kBlockPositions, states.rescale + h,
                           out + h * latent, latent);
    }
  }
  for (; h < heads; ++h) {
    for (size_t s = 0; s < steps; ++s) {
      AddValues<T, 1>(rows, s, scores + h * kBlockPositions, states.rescale + h, out + h * latent,
                      latent);
    }
  }
  if (latent % kStepColumns == 0) return;
  for (h = 0; h < heads; ++h) {
    AddLastValues(rows, steps * kStepColumns, latent, scores + h * kBlockPositions,
                  states.rescale[h], out + h * latent);
  }
}

// Rows of integers as f32: once for all heads, in a scratch that the nearest caches hold.
HWY_INLINE void ExpandBlock(CacheType type, const WeightView& rows, size_t row_bytes, float* out) {
  for (size_t p = 0; p < rows.rows; ++p) {
    const std::byte* const row = rows.data + p * row_bytes;
    if (type == CacheType::kQ8) {
      ExpandQ8Row(row, rows.columns, out + p * rows.columns);
    } else {
      ExpandQ4Row(row, rows.columns, out + p * rows.columns);
    }
  }
}

void LatentAttentionTarget(const LatentCacheView& cache, size_t positions, const float* q,
                           size_t heads, float scale, float* scratch, float* out) {
  float* const scores = scratch;
  float* const carried = scratch + heads * kBlockPositions;
  const HeadStates states{carried, carried + heads, carried + 2 * heads};
  std::fill_n(states.largest, heads, -std::numeric_limits<float>::infinity());
  std::fill_n(states.sum, heads, 0.0F);
  std::fill_n(out, heads * cache.latent, 0.0F);
  WeightView rows;
  rows.type = cache.type == CacheType::kBf16 ? WeightType::kBf16 : WeightType::kF32;
  rows.columns = cache.width;
  const size_t row_bytes = CacheRowBytes(cache.type, cache.width);
  const bool integers = cache.type == CacheType::kQ8 || cache.type == CacheType::kQ4;
  float* const expanded = scratch + heads * kHeadFloats;
  for (size_t first = 0; first < positions; first += kBlockPositions) {
    rows.rows = std::min(kBlockPositions, positions - first);
    rows.data = cache.data + first * row_bytes;
    if (integers) {
      ExpandBlock(cache.type, rows, row_bytes, expanded);
      rows.data = reinterpret_cast<const std::byte*>(expanded);
    }
    if (rows.type == WeightType::kF32) {
      AttendBlock<WeightType::kF32>(rows, cache.latent, q, heads, scale, scores, states, out);
    } else {
      AttendBlock<WeightType::kBf16>(rows, cache.latent, q, heads, scale, scores, states, out);
    }
  }
  if (positions == 0) return;
  for (size_t h = 0; h < heads; ++h) {
    float* const values = out + h * cache.latent;
    ForEach(FactorOperation{Fill(1.0F / states.sum[h])}, values, values, cache.latent);
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(LatentAttentionTarget);

size_t LatentAttentionScratch(size_t heads, size_t width) {
  return heads * HWY_STATIC_DISPATCH(kHeadFloats) + width * HWY_STATIC_DISPATCH(kBlockPositions);
}

void LatentAttention(const LatentCacheView& cache, size_t positions, const float* q, size_t heads,
                     float scale, float* scratch, float* out) {
  HWY_DYNAMIC_DISPATCH(LatentAttentionTarget)
  (cache, positions, q, heads, scale, scratch, out);
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
