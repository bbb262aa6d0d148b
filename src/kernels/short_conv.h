// The short causal depthwise convolution before KDA's recurrence.
#pragma once

#include <cstddef>

namespace kimi_k3::kernels {

// One position: out[c] = silu(sum_t taps[c][t] * input(t)[c]) where input(t) for t < tap_count - 1
// is history row t (the oldest first) and the last tap meets x. taps: [channels, tap_count] as
// stored; history: [tap_count - 1, channels], then moved on by one position so that x is its last
// row. The sum is a chain of fused multiply-adds in ascending tap order. out may be x.
// docs/model.md section 3.
void ShortConvStep(const float* taps, size_t tap_count, float* history, const float* x, float* out,
                   size_t channels);

}  // namespace kimi_k3::kernels
