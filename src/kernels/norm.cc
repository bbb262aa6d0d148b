// Norms and attention residuals.
#include "kernels/norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot-inl.h"
#include "kernels/elementwise-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

struct NormOperation {
  F16 factor;
  HWY_INLINE F16 operator()(const F16& x, const F16& weight) const {
    return Mul(weight, Mul(x, factor));
  }
};
struct FactorOperation {
  F16 factor;
  HWY_INLINE F16 operator()(const F16& x) const { return Mul(x, factor); }
};

// 1 / sqrt(mean(x^2) + epsilon)
HWY_INLINE float InverseRms(const float* x, float epsilon, size_t n) {
  return 1.0F / std::sqrt(SumProducts(x, x, n) / static_cast<float>(n) + epsilon);
}

void RmsNormTarget(const float* x, const float* weight, float epsilon, float* out, size_t n) {
  if (n == 0) return;
  ForEach(NormOperation{Fill(InverseRms(x, epsilon, n))}, x, weight, out, n);
}

void L2NormTarget(float* x, float scale, size_t n) {
  const float factor = scale / std::sqrt(SumProducts(x, x, n) + 1e-6F);
  ForEach(FactorOperation{Fill(factor)}, x, x, n);
}

// Turns scores into weights that add up to one.
HWY_INLINE void SoftmaxOfFew(float* scores, size_t count) {
  float largest = scores[0];
  for (size_t s = 1; s < count; ++s) largest = scores[s] > largest ? scores[s] : largest;
  float sum = 0.0F;
  for (size_t s = 0; s < count; ++s) {
    scores[s] = Exp(scores[s] - largest);
    sum += scores[s];
  }
  for (size_t s = 0; s < count; ++s) scores[s] /= sum;
}

void AttentionResidualTarget(const float* const* sources, size_t count,
                             const float* norm_times_proj, float epsilon, float* scores, float* out,
                             size_t n) {
  if (n == 0) return;
  for (size_t s = 0; s < count; ++s) {
    scores[s] = SumProducts(sources[s], norm_times_proj, n) * InverseRms(sources[s], epsilon, n);
  }
  SoftmaxOfFew(scores, count);
  size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    F16 sum = Fill(0.0F);
    for (size_t s = 0; s < count; ++s) sum = MulAdd(Fill(scores[s]), Load(sources[s] + j), sum);
    Store(sum, out + j);
  }
  if (j == n) return;
  F16 sum = Fill(0.0F);
  for (size_t s = 0; s < count; ++s) {
    sum = MulAdd(Fill(scores[s]), LoadPartial(sources[s] + j, n - j, 0.0F), sum);
  }
  StorePartial(sum, out + j, n - j);
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(RmsNormTarget);
HWY_EXPORT(L2NormTarget);
HWY_EXPORT(AttentionResidualTarget);

void RmsNorm(const float* x, const float* weight, float epsilon, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(RmsNormTarget)(x, weight, epsilon, out, n);
}

void L2NormInPlace(float* x, float scale, size_t n) {
  HWY_DYNAMIC_DISPATCH(L2NormTarget)(x, scale, n);
}

void AttentionResidual(const float* const* sources, size_t count, const float* norm_times_proj,
                       float epsilon, float* scores, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(AttentionResidualTarget)
  (sources, count, norm_times_proj, epsilon, scores, out, n);
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
