// The gated delta rule: two passes over the state, column block by column block.
#include "kernels/delta_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_rule.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/elementwise-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Columns from `column` on, B times sixteen or (kPartial, B = 1) `width` < 16 of them. Columns of
// the state are independent of one another, so the block stays in the nearest cache between the
// passes. Number: float or bf16 (uint16_t). Both passes decay, which gives the same bits twice and
// leaves one rounding to bf16.
template <size_t B, bool kPartial, typename Number>
HWY_INLINE void DeltaRuleColumns(Number* state, size_t dim, const DeltaRuleInput& input,
                                 size_t column, size_t width, float* out) {
  const auto load = [width](const auto* p)
                        HWY_ATTR { return kPartial ? LoadPartial(p, width) : Load(p); };
  const auto store = [width](const F16& v, auto* p) HWY_ATTR {
    if (kPartial) {
      StorePartial(v, p, width);
    } else {
      Store(v, p);
    }
  };
  Number* const block = state + column;

  F16 predicted[B];
  KIMI_K3_UNROLL
  for (size_t b = 0; b < B; ++b) predicted[b] = Fill(0.0F);
  for (size_t i = 0; i < dim; ++i) {
    const Number* const row = block + i * dim;
    const F16 decay = Fill(input.decay[i]);
    const F16 key = Fill(input.k[i]);
    KIMI_K3_UNROLL
    for (size_t b = 0; b < B; ++b) {
      const F16 decayed = Mul(load(row + b * kLanes), decay);
      predicted[b] = MulAdd(key, decayed, predicted[b]);
    }
  }

  F16 delta[B];
  F16 result[B];
  KIMI_K3_UNROLL
  for (size_t b = 0; b < B; ++b) {
    delta[b] = Mul(Fill(input.beta), Sub(load(input.v + column + b * kLanes), predicted[b]));
    result[b] = Fill(0.0F);
  }
  for (size_t i = 0; i < dim; ++i) {
    Number* const row = block + i * dim;
    const F16 decay = Fill(input.decay[i]);
    const F16 key = Fill(input.k[i]);
    const F16 query = Fill(input.q[i]);
    KIMI_K3_UNROLL
    for (size_t b = 0; b < B; ++b) {
      const F16 decayed = Mul(load(row + b * kLanes), decay);
      const F16 updated = MulAdd(key, delta[b], decayed);
      store(updated, row + b * kLanes);
      result[b] = MulAdd(query, updated, result[b]);
    }
  }
  KIMI_K3_UNROLL
  for (size_t b = 0; b < B; ++b) store(result[b], out + column + b * kLanes);
}

template <typename Number>
void DeltaRuleStepOf(Number* state, size_t dim, const DeltaRuleInput& input, float* out) {
  constexpr size_t kBlock = kParts == 1 ? 4 : 2;
  size_t column = 0;
  for (; column + kBlock * kLanes <= dim; column += kBlock * kLanes) {
    DeltaRuleColumns<kBlock, false>(state, dim, input, column, 0, out);
  }
  for (; column + kLanes <= dim; column += kLanes) {
    DeltaRuleColumns<1, false>(state, dim, input, column, 0, out);
  }
  if (column < dim) DeltaRuleColumns<1, true>(state, dim, input, column, dim - column, out);
}

void DeltaRuleStepTarget(StateType type, std::byte* state, size_t dim, const DeltaRuleInput& input,
                         float* out) {
  if (type == StateType::kF32) {
    DeltaRuleStepOf(reinterpret_cast<float*>(state), dim, input, out);
  } else {
    DeltaRuleStepOf(reinterpret_cast<uint16_t*>(state), dim, input, out);
  }
}

struct BoundedDecayOperation {
  F16 a;
  F16 lower_bound;
  HWY_INLINE F16 operator()(const F16& g) const {
    return Exp(Mul(lower_bound, Sigmoid(Mul(a, g))));
  }
};
struct SoftplusDecayOperation {
  F16 minus_a;
  HWY_INLINE F16 operator()(const F16& g) const { return Exp(Mul(minus_a, Softplus(g))); }
};

void BoundedDecayTarget(float* g, float a, float lower_bound, size_t n) {
  ForEach(BoundedDecayOperation{Fill(a), Fill(lower_bound)}, g, g, n);
}
void SoftplusDecayTarget(float* g, float a, size_t n) {
  ForEach(SoftplusDecayOperation{Fill(-a)}, g, g, n);
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(DeltaRuleStepTarget);
HWY_EXPORT(BoundedDecayTarget);
HWY_EXPORT(SoftplusDecayTarget);

void DeltaRuleStep(StateType type, std::byte* state, size_t dim, const DeltaRuleInput& input,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(DeltaRuleStepTarget)(type, state, dim, input, out);
}

void BoundedDecay(float* g, float a, float lower_bound, size_t n) {
  HWY_DYNAMIC_DISPATCH(BoundedDecayTarget)(g, a, lower_bound, n);
}

void SoftplusDecay(float* g, float a, size_t n) {
  HWY_DYNAMIC_DISPATCH(SoftplusDecayTarget)(g, a, n);
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE
