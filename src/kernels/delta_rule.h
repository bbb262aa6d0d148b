// Kimi delta attention: the gated delta rule of one head over consecutive positions.
#pragma once

#include <cstddef>

namespace kimi_k3::kernels {

// The vectors of one head at one position; each points to `dim` floats.
struct DeltaRuleInput {
  const float* q;  // normalised and scaled
  const float* k;  // normalised
  const float* v;
  const float* decay;  // the factor by which row i of the state shrinks
  float beta;
};

// state: [dim key, dim value], f32. state[i] *= decay[i]; d = beta * (v - k^T state);
// state += k d^T; out = q^T state (the updated one). Sums over key rows are chains of fused
// multiply-adds in ascending order. scratch: dim floats. out: dim floats. Any dim >= 1.
// docs/model.md section 3.
void DeltaRuleStep(float* state, size_t dim, const DeltaRuleInput& input, float* scratch,
                   float* out);

// g[i] = exp(lower_bound * sigmoid(a * g[i])), a = exp(A_log) of the head: the bounded decay of K3.
void BoundedDecay(float* g, float a, float lower_bound, size_t n);
// g[i] = exp(-a * softplus(g[i])): the unbounded decay of Kimi-Linear.
void SoftplusDecay(float* g, float a, size_t n);

}  // namespace kimi_k3::kernels
