// Norms and attention residuals against double precision and the summation contract.
#include "kernels/norm.h"

#include "kernels/elementwise.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(NormTest);

TEST_P(NormTest, RmsNormFollowsTheContractForEveryLength) {
  for (size_t n = 1; n <= 70; ++n) {
    const std::vector<float> x = RandomFloats(n, 1, -3.0F, 3.0F);
    const std::vector<float> weight = RandomFloats(n, 2);
    const std::vector<float> blank(n);
    GuardedBytes guarded_x(AsBytes(x));
    GuardedBytes guarded_weight(AsBytes(weight));
    GuardedBytes out(AsBytes(blank));
    RmsNorm(guarded_x.floats(), guarded_weight.floats(), 1e-5F, out.floats(), n);
    const float factor = 1.0F / std::sqrt(ContractDot(x, x) / static_cast<float>(n) + 1e-5F);
    double mean = 1e-5;
    for (const float value : x) mean += double{value} * value / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(Bits(out.floats()[i]), Bits(weight[i] * (x[i] * factor)));
      ASSERT_NEAR(out.floats()[i], weight[i] * x[i] / std::sqrt(mean), 1e-6);
    }
    RmsNorm(guarded_x.floats(), weight.data(), 1e-5F, guarded_x.floats(), n);
    ASSERT_EQ(Bits({guarded_x.floats(), n}), Bits({out.floats(), n}));
  }
}

TEST_P(NormTest, RmsNormUsesTheEpsilonItIsGiven) {
  const std::vector<float> x(32, 1e-3F);
  const std::vector<float> weight(32, 1.0F);
  std::vector<float> large(32);
  std::vector<float> small(32);
  RmsNorm(x.data(), weight.data(), 1e-5F, large.data(), 32);
  RmsNorm(x.data(), weight.data(), 1e-6F, small.data(), 32);
  EXPECT_NEAR(large[0], 1e-3 / std::sqrt(1.1e-5), 1e-6);
  EXPECT_NEAR(small[0], 1e-3 / std::sqrt(2e-6), 1e-6);
}

TEST_P(NormTest, L2NormDividesByTheLengthAndScales) {
  for (const size_t n : {0, 1, 5, 16, 33, 128}) {
    const std::vector<float> x = RandomFloats(n, 3);
    GuardedBytes out(AsBytes(x));
    L2NormInPlace(out.floats(), 0.25F, n);
    double sum = 1e-6;
    for (const float value : x) sum += double{value} * value;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(out.floats()[i], 0.25 * x[i] / std::sqrt(sum), 1e-6);
    }
  }
}

TEST_P(NormTest, L2NormEpsilonIsAddedToTheSumOfSquares) {
  std::vector<float> x(4, 5e-4F);  // the sum of squares equals the epsilon
  L2NormInPlace(x.data(), 1.0F, 4);
  EXPECT_NEAR(x[0], 5e-4 / std::sqrt(2e-6), 1e-6);
}

TEST_P(NormTest, AttentionResidualAgreesWithDoublePrecision) {
  for (const size_t n : {1, 15, 16, 33, 100}) {
    for (const size_t count : {1, 2, 5, 9}) {
      std::vector<std::vector<float>> sources;
      std::vector<const float*> pointers;
      for (size_t s = 0; s < count; ++s) {
        sources.push_back(RandomFloats(n, static_cast<uint32_t>(10 + s), -2.0F, 2.0F));
      }
      for (const auto& source : sources) pointers.push_back(source.data());
      const std::vector<float> norm_times_proj = RandomFloats(n, 4);
      std::vector<float> scores(count);
      const std::vector<float> blank(n);
      GuardedBytes out(AsBytes(blank));
      AttentionResidual(pointers.data(), count, norm_times_proj.data(), 1e-5F, scores.data(),
                        out.floats(), n);

      std::vector<double> weights(count);
      double total = 0.0;
      for (size_t s = 0; s < count; ++s) {
        double mean = 0.0;
        double score = 0.0;
        for (size_t j = 0; j < n; ++j) {
          mean += double{sources[s][j]} * sources[s][j] / static_cast<double>(n);
          score += double{sources[s][j]} * norm_times_proj[j];
        }
        weights[s] = std::exp(score / std::sqrt(mean + 1e-5));
        total += weights[s];
      }
      for (size_t j = 0; j < n; ++j) {
        double exact = 0.0;
        for (size_t s = 0; s < count; ++s) exact += weights[s] / total * sources[s][j];
        ASSERT_NEAR(out.floats()[j], exact, 3e-6) << n << " x " << count;
      }
    }
  }
}

TEST_P(NormTest, AttentionResidualOfOneSourceIsThatSource) {
  const std::vector<float> source = RandomFloats(40, 5);
  const float* const sources[] = {source.data()};
  const std::vector<float> norm_times_proj = RandomFloats(40, 6);
  float score = 0.0F;
  std::vector<float> out(40);
  AttentionResidual(sources, 1, norm_times_proj.data(), 1e-5F, &score, out.data(), 40);
  EXPECT_EQ(Bits(out), Bits(source));
}

TEST_P(NormTest, NanIsNeverHidden) {
  std::vector<float> source = RandomFloats(40, 7);
  const std::vector<float> good = RandomFloats(40, 8);
  source[17] = std::nanf("");
  const float* const sources[] = {good.data(), source.data(), good.data()};
  std::vector<float> scores(3);
  std::vector<float> out(40);
  AttentionResidual(sources, 3, good.data(), 1e-5F, scores.data(), out.data(), 40);
  EXPECT_FALSE(AllFinite(out.data(), 1));
  RmsNorm(source.data(), good.data(), 1e-5F, out.data(), 40);
  EXPECT_FALSE(AllFinite(out.data(), 1));
}

}  // namespace
}  // namespace kimi_k3::kernels
