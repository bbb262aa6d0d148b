// The sum of products of two f32 vectors under the summation contract.
#if defined(KIMI_K3_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_DOT_INL_H_
#undef KIMI_K3_KERNELS_DOT_INL_H_
#else
#define KIMI_K3_KERNELS_DOT_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

HWY_INLINE float SumProducts(const float* a, const float* b, size_t n) {
  F16 sum = Fill(0.0F);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = MulAdd(Load(a + i), Load(b + i), sum);
  if (i < n) {
    sum = MulAdd(LoadPartial(a + i, n - i, 0.0F), LoadPartial(b + i, n - i, kNoColumn), sum);
  }
  return SumTree(sum);
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
