// The delta rule against its formula in plain chains, and the two decays.
#include "kernels/delta_rule.h"

#include "kernels/elementwise.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(DeltaRuleTest);

struct Step {
  std::vector<float> q, k, v, decay;
  float beta;

  Step(size_t dim, uint32_t seed)
      : q(RandomFloats(dim, seed)),
        k(RandomFloats(dim, seed + 1)),
        v(RandomFloats(dim, seed + 2)),
        decay(RandomFloats(dim, seed + 3, 0.5F, 1.0F)),
        beta(RandomFloats(1, seed + 4, 0.0F, 1.0F)[0]) {}
  DeltaRuleInput input() const { return {q.data(), k.data(), v.data(), decay.data(), beta}; }
};

// The formula, one number at a time; Number is float with chained fma, or double.
template <typename Number>
void PlainStep(std::vector<Number>& state, size_t dim, const Step& step, std::vector<Number>& out) {
  for (size_t j = 0; j < dim; ++j) {
    Number predicted = 0;
    for (size_t i = 0; i < dim; ++i) {
      state[i * dim + j] *= Number{step.decay[i]};
      predicted = std::fma(Number{step.k[i]}, state[i * dim + j], predicted);
    }
    const Number delta = Number{step.beta} * (Number{step.v[j]} - predicted);
    out[j] = 0;
    for (size_t i = 0; i < dim; ++i) {
      state[i * dim + j] = std::fma(Number{step.k[i]}, delta, state[i * dim + j]);
      out[j] = std::fma(Number{step.q[i]}, state[i * dim + j], out[j]);
    }
  }
}

TEST_P(DeltaRuleTest, FollowsTheFormulaBitForBitForAnyDimension) {
  for (const size_t dim : {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 64, 80, 100, 128, 130}) {
    std::vector<float> plain = RandomFloats(dim * dim, 1);
    GuardedBytes state(AsBytes(plain));
    const std::vector<float> blank(dim);
    GuardedBytes out(AsBytes(blank));
    std::vector<float> scratch(dim);
    std::vector<float> expected(dim);
    for (uint32_t position = 0; position < 3; ++position) {
      const Step step(dim, 10 * position);
      DeltaRuleStep(state.floats(), dim, step.input(), scratch.data(), out.floats());
      PlainStep(plain, dim, step, expected);
      ASSERT_EQ(Bits({out.floats(), dim}), Bits(expected)) << dim;
      ASSERT_EQ(Bits({state.floats(), dim * dim}), Bits(plain)) << dim;
    }
  }
}

TEST_P(DeltaRuleTest, AgreesWithDoublePrecisionOverManyPositions) {
  const size_t dim = 128;
  std::vector<float> state(dim * dim);
  std::vector<double> exact_state(dim * dim);
  std::vector<float> out(dim);
  std::vector<double> exact(dim);
  std::vector<float> scratch(dim);
  for (uint32_t position = 0; position < 20; ++position) {
    Step step(dim, 100 + 10 * position);
    float length = std::sqrt(ContractDot(step.k, step.k));
    for (float& value : step.k) value /= length;
    length = std::sqrt(ContractDot(step.q, step.q));
    for (float& value : step.q) value /= length;
    DeltaRuleStep(state.data(), dim, step.input(), scratch.data(), out.data());
    PlainStep(exact_state, dim, step, exact);
  }
  for (size_t j = 0; j < dim; ++j) ASSERT_NEAR(out[j], exact[j], 2e-6);
}

TEST_P(DeltaRuleTest, TheOutputReadsTheUpdatedState) {
  float state = 0.0F;
  const float one = 1.0F;
  float scratch = 0.0F;
  float out = 0.0F;
  DeltaRuleStep(&state, 1, {&one, &one, &one, &one, 0.5F}, &scratch, &out);
  EXPECT_EQ(state, 0.5F);
  EXPECT_EQ(out, 0.5F);
}

TEST_P(DeltaRuleTest, BoundedDecayIsTheSigmoidForm) {
  std::vector<float> g = RandomFloats(100, 2, -30.0F, 30.0F);
  const std::vector<float> before = g;
  BoundedDecay(g.data(), 1.7F, -5.0F, g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    ASSERT_EQ(Bits(g[i]), Bits(Exp(-5.0F * Sigmoid(1.7F * before[i]))));
    const double exact = std::exp(-5.0 / (1.0 + std::exp(-double{1.7F} * before[i])));
    ASSERT_NEAR(g[i], exact, 2e-6 * exact);
  }
}

TEST_P(DeltaRuleTest, SoftplusDecayKeepsLargeArguments) {
  std::vector<float> g = RandomFloats(100, 3, -30.0F, 30.0F);
  const std::vector<float> before = g;
  SoftplusDecay(g.data(), 0.2F, g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    ASSERT_EQ(Bits(g[i]), Bits(Exp(-0.2F * Softplus(before[i]))));
    const double softplus = std::log1p(std::exp(double{before[i]}));
    ASSERT_NEAR(g[i], std::exp(-double{0.2F} * softplus), 2e-6);
  }
}

}  // namespace
}  // namespace kimi_k3::kernels
