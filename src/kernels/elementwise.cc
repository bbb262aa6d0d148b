// Element-wise kernels: one loop over sixteen lanes at a time, one operation each.
#include "kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/elementwise-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

struct AddOperation {
  HWY_INLINE F16 operator()(const F16& y, const F16& x) const { return Add(y, x); }
};
struct MulAddOperation {
  F16 factor;
  HWY_INLINE F16 operator()(const F16& y, const F16& x) const { return MulAdd(factor, x, y); }
};
struct ScaleOperation {
  F16 factor;
  HWY_INLINE F16 operator()(const F16& y) const { return Mul(y, factor); }
};
struct SigmoidGateOperation {
  HWY_INLINE F16 operator()(const F16& y, const F16& gate) const { return Mul(y, Sigmoid(gate)); }
};
struct SigmoidOperation {
  HWY_INLINE F16 operator()(const F16& y) const { return Sigmoid(y); }
};
struct SiluOperation {
  HWY_INLINE F16 operator()(const F16& y) const { return Mul(y, Sigmoid(y)); }
};
struct SituOperation {
  F16 beta;
  HWY_INLINE F16 operator()(const F16& gate, const F16& up) const {
    return Mul(Mul(Mul(beta, Tanh(Div(gate, beta))), Sigmoid(gate)), up);
  }
};
struct BoundedSituOperation {
  SituOperation situ;
  F16 linear_beta;
  HWY_INLINE F16 operator()(const F16& gate, const F16& up) const {
    return situ(gate, Mul(linear_beta, Tanh(Div(up, linear_beta))));
  }
};
struct SiluGluOperation {
  HWY_INLINE F16 operator()(const F16& gate, const F16& up) const {
    return Mul(Mul(gate, Sigmoid(gate)), up);
  }
};

float ExpTarget(float x) { return Exp(x); }
float SigmoidTarget(float x) { return Sigmoid(x); }
float TanhTarget(float x) { return Tanh(x); }
float SoftplusTarget(float x) { return Softplus(x); }

void AddTarget(float* y, const float* x, size_t n) { ForEach(AddOperation{}, y, x, y, n); }
void MulAddTarget(float* y, float a, const float* x, size_t n) {
  ForEach(MulAddOperation{Fill(a)}, y, x, y, n);
}
void ScaleTarget(float* y, float a, size_t n) { ForEach(ScaleOperation{Fill(a)}, y, y, n); }
void SigmoidGateTarget(float* y, const float* gate, size_t n) {
  ForEach(SigmoidGateOperation{}, y, gate, y, n);
}
void SigmoidInPlaceTarget(float* y, size_t n) { ForEach(SigmoidOperation{}, y, y, n); }
void SiluTarget(float* y, size_t n) { ForEach(SiluOperation{}, y, y, n); }
void SituGluTarget(const float* gate, const float* up, float beta, float linear_beta, float* out,
                   size_t n) {
  const SituOperation situ{Fill(beta)};
  if (linear_beta == 0.0F) return ForEach(situ, gate, up, out, n);
  ForEach(BoundedSituOperation{situ, Fill(linear_beta)}, gate, up, out, n);
}
void SiluGluTarget(const float* gate, const float* up, float* out, size_t n) {
  ForEach(SiluGluOperation{}, gate, up, out, n);
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(ExpTarget);
HWY_EXPORT(SigmoidTarget);
HWY_EXPORT(TanhTarget);
HWY_EXPORT(SoftplusTarget);
HWY_EXPORT(AddTarget);
HWY_EXPORT(MulAddTarget);
HWY_EXPORT(ScaleTarget);
HWY_EXPORT(SigmoidGateTarget);
HWY_EXPORT(SigmoidInPlaceTarget);
HWY_EXPORT(SiluTarget);
HWY_EXPORT(SituGluTarget);
HWY_EXPORT(SiluGluTarget);

float Exp(float x) { return HWY_DYNAMIC_DISPATCH(ExpTarget)(x); }
float Sigmoid(float x) { return HWY_DYNAMIC_DISPATCH(SigmoidTarget)(x); }
float Tanh(float x) { return HWY_DYNAMIC_DISPATCH(TanhTarget)(x); }
float Softplus(float x) { return HWY_DYNAMIC_DISPATCH(SoftplusTarget)(x); }

void AddInPlace(float* y, const float* x, size_t n) { HWY_DYNAMIC_DISPATCH(AddTarget)(y, x, n); }
void MulAddInPlace(float* y, float a, const float* x, size_t n) {
  HWY_DYNAMIC_DISPATCH(MulAddTarget)(y, a, x, n);
}
void ScaleInPlace(float* y, float a, size_t n) { HWY_DYNAMIC_DISPATCH(ScaleTarget)(y, a, n); }
void SigmoidGateInPlace(float* y, const float* gate, size_t n) {
  HWY_DYNAMIC_DISPATCH(SigmoidGateTarget)(y, gate, n);
}
void SigmoidInPlace(float* y, size_t n) { HWY_DYNAMIC_DISPATCH(SigmoidInPlaceTarget)(y, n); }
void SiluInPlace(float* y, size_t n) { HWY_DYNAMIC_DISPATCH(SiluTarget)(y, n); }
void SituGlu(const float* gate, const float* up, float beta, float linear_beta, float* out,
             size_t n) {
  HWY_DYNAMIC_DISPATCH(SituGluTarget)(gate, up, beta, linear_beta, out, n);
}
void SiluGlu(const float* gate, const float* up, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(SiluGluTarget)(gate, up, out, n);
}

bool AllFinite(const float* x, size_t n) {
  constexpr uint32_t kExponent = 0x7f800000U;
  constexpr size_t kBlock = 1024;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t last = first + kBlock < n ? first + kBlock : n;
    uint32_t unbounded = 0;
    for (size_t i = first; i < last; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, x + i, sizeof bits);
      unbounded |= (bits & kExponent) == kExponent ? 1U : 0U;
    }
    if (unbounded != 0) return false;
  }
  return true;
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
