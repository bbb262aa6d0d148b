// Element by element: adding, scaling, sigmoid, gated activations.
#pragma once

#include <cstddef>

namespace kimi_k3::kernels {

// The transcendental functions of the engine, the same bits on every instruction set. Absolute or
// relative error (whichever is larger) below 4e-7 over the whole range; NaN gives NaN; exp of a
// large number is infinity, of a small one zero (results below 2^-126 may be flushed to zero).
float Exp(float x);
float Sigmoid(float x);
float Tanh(float x);
// ln(1 + e^x); x itself above 20 (docs/model.md section 3).
float Softplus(float x);

// y[i] += x[i]
void AddInPlace(float* y, const float* x, size_t n);
// y[i] = fma(a, x[i], y[i])
void MulAddInPlace(float* y, float a, const float* x, size_t n);
// y[i] *= a
void ScaleInPlace(float* y, float a, size_t n);
// y[i] *= sigmoid(gate[i])
void SigmoidGateInPlace(float* y, const float* gate, size_t n);
// y[i] = sigmoid(y[i])
void SigmoidInPlace(float* y, size_t n);
// y[i] = y[i] * sigmoid(y[i])
void SiluInPlace(float* y, size_t n);

// SiTU-GLU, out[i] = b tanh(g/b) sigmoid(g) * (c tanh(u/c)); linear_beta (c) of 0 means that u
// enters as it is (docs/model.md section 3). out may be gate or up.
void SituGlu(const float* gate, const float* up, float beta, float linear_beta, float* out,
             size_t n);
// SwiGLU, out[i] = g sigmoid(g) u. out may be gate or up.
void SiluGlu(const float* gate, const float* up, float* out, size_t n);

// False where one of the numbers is NaN or infinite.
bool AllFinite(const float* x, size_t n);

}  // namespace kimi_k3::kernels
