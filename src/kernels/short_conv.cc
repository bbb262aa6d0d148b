// The short causal depthwise convolution, sixteen channels at a time.
#include "kernels/short_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_conv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Tap t of `count` <= 16 channels, which lie tap_count floats apart.
HWY_INLINE F16 GatherTaps(const float* taps, size_t tap_count, size_t t, size_t count) {
  float lanes[kLanes] = {};
  for (size_t c = 0; c < count; ++c) lanes[c] = taps[c * tap_count + t];
  return Load(lanes);
}

template <bool kPartial>
HWY_INLINE void ConvolveChannels(const float* taps, size_t tap_count, float* history,
                                 const float* x, float* out, size_t channels, size_t count) {
  const auto load = [count](const float* p)
                        HWY_ATTR { return kPartial ? LoadPartial(p, count, 0.0F) : Load(p); };
  const auto store = [count](const F16& v, float* p) HWY_ATTR {
    if (kPartial) {
      StorePartial(v, p, count);
    } else {
      Store(v, p);
    }
  };
  const F16 newest = load(x);
  F16 sum = Fill(0.0F);
  for (size_t t = 0; t + 1 < tap_count; ++t) {
    sum = MulAdd(GatherTaps(taps, tap_count, t, count), load(history + t * channels), sum);
    // The row has been read; what moves into it is the next position.
    store(t + 2 < tap_count ? load(history + (t + 1) * channels) : newest, history + t * channels);
  }
  sum = MulAdd(GatherTaps(taps, tap_count, tap_count - 1, count), newest, sum);
  store(Mul(sum, Sigmoid(sum)), out);
}

void ShortConvTarget(const float* taps, size_t tap_count, float* history, const float* x,
                     float* out, size_t channels) {
  size_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    ConvolveChannels<false>(taps + c * tap_count, tap_count, history + c, x + c, out + c, channels,
                            kLanes);
  }
  if (c < channels) {
    ConvolveChannels<true>(taps + c * tap_count, tap_count, history + c, x + c, out + c, channels,
                           channels - c);
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(ShortConvTarget);

void ShortConvStep(const float* taps, size_t tap_count, float* history, const float* x, float* out,
                   size_t channels) {
  if (tap_count == 0) return;
  HWY_DYNAMIC_DISPATCH(ShortConvTarget)(taps, tap_count, history, x, out, channels);
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
