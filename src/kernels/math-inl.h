// exp, sigmoid, tanh and softplus on vectors: one polynomial each, the same bits everywhere.
#if defined(KIMI_K3_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_MATH_INL_H_
#undef KIMI_K3_KERNELS_MATH_INL_H_
#else
#define KIMI_K3_KERNELS_MATH_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// The float 2^n for -126 <= n <= 127.
HWY_INLINE VF PowerOfTwo(hn::Vec<DI32> n) {
  return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI32(), 127))));
}

// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 P(r); e^x = 2^n e^r, the power applied in
// two exact steps so that results below 2^-126 round once and results beyond the range become
// infinity by themselves.
HWY_INLINE VF Exp(VF x) {
  const DF d;
  const VF largest = hn::Set(d, 89.0F);     // e^89 overflows
  const VF smallest = hn::Set(d, -104.0F);  // e^-104 rounds to zero
  VF clamped = hn::IfThenElse(hn::Gt(x, largest), largest, x);
  clamped = hn::IfThenElse(hn::Lt(x, smallest), smallest, clamped);

  const VF n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504F)));
  VF r = hn::MulAdd(n, hn::Set(d, -0.693115234F), clamped);
  r = hn::MulAdd(n, hn::Set(d, -3.19461833e-05F), r);

  VF p = hn::Set(d, 0.00138145476F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836874172F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668389F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665211F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994F));
  p = hn::MulAdd(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(d, 1.0F));

  const auto power = hn::ConvertTo(DI32(), n);
  const auto half = hn::ShiftRight<1>(power);
  return hn::Mul(hn::Mul(p, PowerOfTwo(half)), PowerOfTwo(hn::Sub(power, half)));
}

// 1 / (1 + e^-x)
HWY_INLINE VF Sigmoid(VF x) {
  const VF one = hn::Set(DF(), 1.0F);
  return hn::Div(one, hn::Add(one, Exp(hn::Neg(x))));
}

// Of m = |x|, near zero m + m^3 P(m^2), elsewhere 1 - 2 / (e^2m + 1); then the sign of x.
HWY_INLINE VF Tanh(VF x) {
  const DF d;
  const VF magnitude = hn::Abs(x);
  const VF z = hn::Mul(magnitude, magnitude);
  VF p = hn::Set(d, -0.00571592525F);
  p = hn::MulAdd(p, z, hn::Set(d, 0.0206496306F));
  p = hn::MulAdd(p, z, hn::Set(d, -0.0537432209F));
  p = hn::MulAdd(p, z, hn::Set(d, 0.133314878F));
  p = hn::MulAdd(p, z, hn::Set(d, -0.333332837F));
  const VF near = hn::MulAdd(hn::Mul(p, z), magnitude, magnitude);

  const VF one = hn::Set(d, 1.0F);
  const VF e = Exp(hn::Add(magnitude, magnitude));
  const VF far = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(e, one)));
  const VF result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625F)), near, far);
  return hn::CopySign(result, x);
}

// max(x, 0) + ln(1 + e^-|x|), the logarithm as 2 artanh(u / (2 + u)); x itself above 20.
HWY_INLINE VF Softplus(VF x) {
  const DF d;
  const VF u = Exp(hn::Neg(hn::Abs(x)));
  const VF s = hn::Div(u, hn::Add(u, hn::Set(d, 2.0F)));
  const VF z = hn::Mul(s, s);
  VF p = hn::Set(d, 0.140155509F);
  p = hn::MulAdd(p, z, hn::Set(d, 0.13998948F));
  p = hn::MulAdd(p, z, hn::Set(d, 0.200108841F));
  p = hn::MulAdd(p, z, hn::Set(d, 0.333332062F));
  const VF twice = hn::Add(s, s);
  const VF logarithm = hn::MulAdd(hn::Mul(p, z), twice, twice);
  const VF above = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Zero(d));
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 20.0F)), x, hn::Add(above, logarithm));
}

#define KIMI_K3_LIFT(Function)                                             \
  HWY_INLINE F16 Function(const F16& x) {                                  \
    F16 out;                                                               \
    KIMI_K3_UNROLL                                                         \
    for (size_t i = 0; i < kParts; ++i) out.part[i] = Function(x.part[i]); \
    return out;                                                            \
  }                                                                        \
  HWY_INLINE float Function(float x) { return hn::GetLane(Function(hn::Set(DF(), x))); }
KIMI_K3_LIFT(Exp)
KIMI_K3_LIFT(Sigmoid)
KIMI_K3_LIFT(Tanh)
KIMI_K3_LIFT(Softplus)
#undef KIMI_K3_LIFT

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
