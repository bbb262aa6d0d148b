// Applying an operation on sixteen lanes to whole arrays, the last lanes included.
#if defined(KIMI_K3_KERNELS_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_ELEMENTWISE_INL_H_
#undef KIMI_K3_KERNELS_ELEMENTWISE_INL_H_
#else
#define KIMI_K3_KERNELS_ELEMENTWISE_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// out[i] = operation(a[i]); out may be a.
template <class Operation>
HWY_INLINE void ForEach(const Operation& operation, const float* a, float* out, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(operation(Load(a + i)), out + i);
  if (i < n) StorePartial(operation(LoadPartial(a + i, n - i, 0.0F)), out + i, n - i);
}

// out[i] = operation(a[i], b[i]); out may be a or b.
template <class Operation>
HWY_INLINE void ForEach(const Operation& operation, const float* a, const float* b, float* out,
                        size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(operation(Load(a + i), Load(b + i)), out + i);
  if (i < n) {
    const size_t left = n - i;
    StorePartial(operation(LoadPartial(a + i, left, 0.0F), LoadPartial(b + i, left, 0.0F)), out + i,
                 left);
  }
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
