// Activations against double precision, their edge cases, and agreement of scalar and vector forms.
#include "kernels/elementwise.h"

#include <functional>
#include <limits>

#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(ElementwiseTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double ExactSigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double ExactSoftplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// Every 997th float between -limit and limit, both signs of every magnitude.
void ForFloatsUpTo(float limit, const std::function<void(float)>& check) {
  const uint32_t end = std::bit_cast<uint32_t>(limit);
  for (uint32_t bits = 0; bits <= end; bits += 997) {
    check(std::bit_cast<float>(bits));
    check(-std::bit_cast<float>(bits));
  }
}

void ExpectClose(float actual, double exact, float x) {
  const double error = std::abs(double{actual} - exact);
  ASSERT_LT(error, 4e-7 * std::max(1.0, std::abs(exact))) << "at " << x;
}

void ExpectRelativelyClose(float actual, double exact, double bound, float x) {
  if (std::abs(exact) < 1.2e-38) {
    ASSERT_NEAR(actual, exact, 1.5e-45) << "at " << x;
  } else {
    ASSERT_LT(std::abs(actual - exact), bound * std::abs(exact)) << "at " << x;
  }
}

TEST_P(ElementwiseTest, ExpIsAccurateOverTheWholeRange) {
  ForFloatsUpTo(88.7F,
                [](float x) { ExpectRelativelyClose(Exp(x), std::exp(double{x}), 2e-7, x); });
  ForFloatsUpTo(103.0F, [](float x) {
    if (x < 0) ExpectRelativelyClose(Exp(x), std::exp(double{x}), 2e-7, x);
  });
}

TEST_P(ElementwiseTest, ExpOfExtremes) {
  EXPECT_EQ(Exp(0.0F), 1.0F);
  EXPECT_EQ(Exp(-0.0F), 1.0F);
  EXPECT_EQ(Exp(88.73F), kInfinity);
  EXPECT_EQ(Exp(1e30F), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-104.0F), 0.0F);
  EXPECT_EQ(Exp(-1e30F), 0.0F);
  EXPECT_EQ(Exp(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
}

TEST_P(ElementwiseTest, SigmoidIsAccurate) {
  ForFloatsUpTo(200.0F, [](float x) { ExpectClose(Sigmoid(x), ExactSigmoid(x), x); });
  EXPECT_EQ(Sigmoid(0.0F), 0.5F);
  EXPECT_EQ(Sigmoid(kInfinity), 1.0F);
  EXPECT_EQ(Sigmoid(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(Sigmoid(std::nanf(""))));
}

TEST_P(ElementwiseTest, TanhIsAccurateAndOdd) {
  ForFloatsUpTo(30.0F, [](float x) {
    ExpectRelativelyClose(Tanh(x), std::tanh(double{x}), 4e-7, x);
    ASSERT_EQ(Bits(Tanh(-x)), Bits(-Tanh(x)));
  });
  EXPECT_EQ(Tanh(kInfinity), 1.0F);
  EXPECT_EQ(Tanh(-kInfinity), -1.0F);
  EXPECT_TRUE(std::signbit(Tanh(-0.0F)));
  EXPECT_TRUE(std::isnan(Tanh(std::nanf(""))));
}

TEST_P(ElementwiseTest, SoftplusIsAccurateAndItsArgumentAboveTwenty) {
  ForFloatsUpTo(60.0F,
                [](float x) { ExpectRelativelyClose(Softplus(x), ExactSoftplus(x), 4e-7, x); });
  EXPECT_EQ(Softplus(20.000002F), 20.000002F);
  EXPECT_EQ(Softplus(kInfinity), kInfinity);
  EXPECT_EQ(Softplus(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(Softplus(std::nanf(""))));
}

// Applies `vector` to guarded copies for every length and compares each element with `scalar`.
void ExpectElementByElement(const std::function<void(float* y, const float* x, size_t n)>& vector,
                            const std::function<float(float y, float x)>& scalar) {
  for (size_t n = 0; n <= 70; ++n) {
    const std::vector<float> first = RandomFloats(n, 1, -9.0F, 9.0F);
    const std::vector<float> second = RandomFloats(n, 2, -60.0F, 60.0F);
    GuardedBytes y(AsBytes(first));
    GuardedBytes x(AsBytes(second));
    vector(y.floats(), x.floats(), n);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(Bits(y.floats()[i]), Bits(scalar(first[i], second[i]))) << i << " of " << n;
      ASSERT_EQ(Bits(x.floats()[i]), Bits(second[i]));
    }
  }
}

TEST_P(ElementwiseTest, EveryLengthAndPlaceGivesTheScalarResult) {
  ExpectElementByElement(AddInPlace, [](float y, float x) { return y + x; });
  ExpectElementByElement([](float* y, const float* x, size_t n) { MulAddInPlace(y, 0.3F, x, n); },
                         [](float y, float x) { return std::fma(0.3F, x, y); });
  ExpectElementByElement([](float* y, const float*, size_t n) { ScaleInPlace(y, 0.3F, n); },
                         [](float y, float) { return 0.3F * y; });
  ExpectElementByElement(SigmoidGateInPlace, [](float y, float x) { return y * Sigmoid(x); });
  ExpectElementByElement([](float* y, const float*, size_t n) { SigmoidInPlace(y, n); },
                         [](float y, float) { return Sigmoid(y); });
  ExpectElementByElement([](float* y, const float*, size_t n) { SiluInPlace(y, n); },
                         [](float y, float) { return y * Sigmoid(y); });
  ExpectElementByElement([](float* y, const float* x, size_t n) { SiluGlu(y, x, y, n); },
                         [](float g, float u) { return g * Sigmoid(g) * u; });
  ExpectElementByElement(
      [](float* y, const float* x, size_t n) { SituGlu(y, x, 4.0F, 25.0F, y, n); },
      [](float g, float u) {
        return 4.0F * Tanh(g / 4.0F) * Sigmoid(g) * (25.0F * Tanh(u / 25.0F));
      });
  ExpectElementByElement(
      [](float* y, const float* x, size_t n) { SituGlu(y, x, 3.0F, 0.0F, y, n); },
      [](float g, float u) { return 3.0F * Tanh(g / 3.0F) * Sigmoid(g) * u; });
}

TEST_P(ElementwiseTest, SituGluAgreesWithDoublePrecision) {
  const std::vector<float> gate = RandomFloats(4096, 3, -12.0F, 12.0F);
  const std::vector<float> up = RandomFloats(4096, 4, -90.0F, 90.0F);
  std::vector<float> out(4096);
  SituGlu(gate.data(), up.data(), 4.0F, 25.0F, out.data(), out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const double g = gate[i];
    const double exact =
        4.0 * std::tanh(g / 4.0) * ExactSigmoid(g) * 25.0 * std::tanh(up[i] / 25.0);
    ASSERT_NEAR(out[i], exact, 1e-6 * std::abs(exact) + 1e-30);
  }
}

TEST_P(ElementwiseTest, GatedActivationsMayOverwriteTheSecondOperand) {
  const std::vector<float> gate = RandomFloats(37, 5);
  std::vector<float> up = RandomFloats(37, 6);
  std::vector<float> separate(37);
  SituGlu(gate.data(), up.data(), 4.0F, 25.0F, separate.data(), 37);
  SituGlu(gate.data(), up.data(), 4.0F, 25.0F, up.data(), 37);
  EXPECT_EQ(Bits(up), Bits(separate));
}

TEST_P(ElementwiseTest, AllFiniteSeesNanAndInfinityAnywhere) {
  for (const size_t n : {0, 1, 17, 1023, 1024, 1025, 3000}) {
    std::vector<float> x(n, std::numeric_limits<float>::max());
    EXPECT_TRUE(AllFinite(x.data(), n));
    for (size_t i = 0; i < n; i += 111) {
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        const float kept = x[i];
        x[i] = bad;
        EXPECT_FALSE(AllFinite(x.data(), n)) << i << " of " << n;
        x[i] = kept;
      }
    }
  }
}

}  // namespace
}  // namespace kimi_k3::kernels
