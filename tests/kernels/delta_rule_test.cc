// The delta rule against its formula in plain chains, and the two decays.
#include "kernels/delta_rule.h"

#include "base/bf16.h"
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

std::byte* StateBytes(std::vector<float>& state) {
  return std::as_writable_bytes(std::span(state)).data();
}

// Numbers in bf16, widened.
std::vector<float> Widened(const std::byte* numbers, size_t n) {
  std::vector<float> wide(n);
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, numbers + i * sizeof bits, sizeof bits);
    wide[i] = Bf16ToFloat(bits);
  }
  return wide;
}

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
    std::vector<float> expected(dim);
    for (uint32_t position = 0; position < 3; ++position) {
      const Step step(dim, 10 * position);
      DeltaRuleStep(StateType::kF32, state.data(), dim, step.input(), out.floats());
      PlainStep(plain, dim, step, expected);
      ASSERT_EQ(Bits({out.floats(), dim}), Bits(expected)) << dim;
      ASSERT_EQ(Bits({state.floats(), dim * dim}), Bits(plain)) << dim;
    }
  }
}

TEST_P(DeltaRuleTest, AStateInBf16IsRoundedOnceAPositionAfterItsOutput) {
  for (const size_t dim : {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 64, 80, 100, 128, 130}) {
    std::vector<float> plain(dim * dim);
    const std::vector<uint16_t> zeros(dim * dim);
    GuardedBytes state(std::as_bytes(std::span(zeros)));
    const std::vector<float> blank(dim);
    GuardedBytes out(AsBytes(blank));
    std::vector<float> expected(dim);
    for (uint32_t position = 0; position < 4; ++position) {
      const Step step(dim, 10 * position);
      DeltaRuleStep(StateType::kBf16, state.data(), dim, step.input(), out.floats());
      PlainStep(plain, dim, step, expected);
      for (float& number : plain) number = Bf16ToFloat(FloatToBf16(number));
      ASSERT_EQ(Bits({out.floats(), dim}), Bits(expected)) << dim;
      ASSERT_EQ(Bits(Widened(state.data(), dim * dim)), Bits(plain)) << dim;
    }
  }
}

// From an empty state a step of beta 1 leads to its value itself.
TEST_P(DeltaRuleTest, RoundingToBf16IsThatOfFloatToBf16) {
  std::vector<float> values = RandomFloats(500, 4, -3.0F, 3.0F);
  for (const float special : {1.0F + 0x1p-8F, 1.0F + 0x3p-8F, 1.0F + 0x1p-8F + 0x1p-20F, 0x1p-149F,
                              -0x1p-133F, 0x1.fffffep127F, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), -0.0F}) {
    values.push_back(special);
  }
  const float one = 1.0F;
  float out = 0.0F;
  for (const float value : values) {
    uint16_t state = 0;
    DeltaRuleStep(StateType::kBf16, reinterpret_cast<std::byte*>(&state), 1,
                  {&one, &one, &value, &one, 1.0F}, &out);
    const float sum = 1.0F * value + 0.0F;
    ASSERT_EQ(Bits(Bf16ToFloat(state)), Bits(Bf16ToFloat(FloatToBf16(sum)))) << value;
    ASSERT_EQ(Bits(out), Bits(sum)) << value;
  }
}

TEST_P(DeltaRuleTest, AgreesWithDoublePrecisionOverManyPositions) {
  const size_t dim = 128;
  std::vector<float> state(dim * dim);
  std::vector<double> exact_state(dim * dim);
  std::vector<float> out(dim);
  std::vector<double> exact(dim);
  for (uint32_t position = 0; position < 20; ++position) {
    Step step(dim, 100 + 10 * position);
    float length = std::sqrt(ContractDot(step.k, step.k));
    for (float& value : step.k) value /= length;
    length = std::sqrt(ContractDot(step.q, step.q));
    for (float& value : step.q) value /= length;
    DeltaRuleStep(StateType::kF32, StateBytes(state), dim, step.input(), out.data());
    PlainStep(exact_state, dim, step, exact);
  }
  for (size_t j = 0; j < dim; ++j) ASSERT_NEAR(out[j], exact[j], 2e-6);
}

TEST_P(DeltaRuleTest, TheOutputReadsTheUpdatedState) {
  std::vector<float> state = {0.0F};
  const float one = 1.0F;
  float out = 0.0F;
  DeltaRuleStep(StateType::kF32, StateBytes(state), 1, {&one, &one, &one, &one, 0.5F}, &out);
  EXPECT_EQ(state[0], 0.5F);
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
