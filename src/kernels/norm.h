// Root-mean-square norms, the L2 norm of KDA's queries and keys, and attention residuals.
#pragma once

#include <cstddef>

namespace kimi_k3::kernels {

// out[i] = weight[i] * (x[i] / sqrt(mean(x^2) + epsilon)); the sum of squares follows the summation
// contract. out may be x. docs/model.md section 3.
void RmsNorm(const float* x, const float* weight, float epsilon, float* out, size_t n);

// x[i] *= scale / sqrt(sum(x^2) + 1e-6): KDA's queries (scale = D^-0.5) and keys (scale = 1).
void L2NormInPlace(float* x, float scale, size_t n);

// Attention residual of one position (docs/model.md section 3). sources: `count` >= 1 vectors of n.
// score_s = sum_j (v_s / sqrt(mean(v_s^2) + epsilon))_j * norm_j * proj_j, weights =
// softmax(score), out[j] = sum_s weight_s v_s[j] in ascending s. norm_times_proj: [n], the products
// norm_j * proj_j. scores: scratch of `count` floats. out may not be one of the sources.
void AttentionResidual(const float* const* sources, size_t count, const float* norm_times_proj,
                       float epsilon, float* scores, float* out, size_t n);

}  // namespace kimi_k3::kernels
