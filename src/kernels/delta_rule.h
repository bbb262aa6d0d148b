// Kimi delta attention: the gated delta rule of one head over consecutive positions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kimi_k3::kernels {

// Type of the numbers of a state.
enum class StateType : uint8_t { kF32, kBf16 };

// Bytes that one number takes.
constexpr size_t StateNumberBytes(StateType type) {
  return type == StateType::kF32 ? sizeof(float) : sizeof(uint16_t);
}

// The vectors of one head at one position; each points to `dim` floats.
struct DeltaRuleInput {
  const float* q;  // normalised and scaled
  const float* k;  // normalised
  const float* v;
  const float* decay;  // the factor by which row i of the state shrinks
  float beta;
};

// state: [dim key, dim value] numbers of `type`, aligned to them. state[i] *= decay[i];
// d = beta * (v - k^T state); state += k d^T; out = q^T state (the updated one). Sums over key rows
// are chains of fused multiply-adds in ascending order. kBf16: the same in f32, and the updated
// state, from which `out` has been read, is rounded once, to the nearest with ties to even.
// out: dim floats. Any dim >= 1. docs/model.md section 3.
void DeltaRuleStep(StateType type, std::byte* state, size_t dim, const DeltaRuleInput& input,
                   float* out);

// g[i] = exp(lower_bound * sigmoid(a * g[i])), a = exp(A_log) of the head: the bounded decay of K3.
void BoundedDecay(float* g, float a, float lower_bound, size_t n);
// g[i] = exp(-a * softplus(g[i])): the unbounded decay of Kimi-Linear.
void SoftplusDecay(float* g, float a, size_t n);

}  // namespace kimi_k3::kernels
