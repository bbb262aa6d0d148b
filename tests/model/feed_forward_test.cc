// Gated activations and the dense feed-forward.
#include "model/feed_forward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/model_test_support.h"

namespace kimi_k3 {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Numbers ExpectedActivation(const ModelConfig& config, const std::vector<float>& gate,
                           const std::vector<float>& up) {
  const double b = static_cast<double>(config.situ_beta);
  const double c = static_cast<double>(config.situ_linear_beta);
  Numbers expected;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = static_cast<double>(gate[i]);
    const double u = static_cast<double>(up[i]);
    const bool silu = config.activation == Activation::kSilu;
    expected.push_back(silu ? g * Sigmoid(g) * u
                            : b * std::tanh(g / b) * Sigmoid(g) *
                                  (c == 0 ? u : c * std::tanh(u / c)));
  }
  return expected;
}

TEST(GatedActivation, FollowsTheConfig) {
  ModelConfig config = TestConfig("KimiK3Like");
  const std::vector<float> gate = RandomRows(1, 1001, 1, 12.0F);
  const std::vector<float> up = RandomRows(1, 1001, 2, 60.0F);
  const auto check = [&](const char* what) {
    std::vector<float> out(gate.size());
    GatedActivation(config, gate.data(), up.data(), out.data(), out.size());
    EXPECT_LE(RelativeError(out.data(), ExpectedActivation(config, gate, up)), 1e-6) << what;
    std::vector<float> in_place = gate;
    GatedActivation(config, in_place.data(), up.data(), in_place.data(), out.size());
    EXPECT_EQ(in_place, out) << what;
  };
  check("SiTU");
  config.situ_beta = 1;
  config.situ_linear_beta = 0;
  check("SiTU without a linear beta");
  config.activation = Activation::kSilu;
  check("SiLU");
}

TEST(ActivateRows, EveryBitIsTheSameHoweverTheRowsAreShared) {
  const TestModel model(TestConfig("AllMlaDense"), 1);
  FakeWeightStream stream(model);
  constexpr size_t kRows = 5;
  constexpr size_t kWidth = 613;
  std::vector<float> gate = RandomRows(kRows, kWidth, 3, 5.0F);
  std::vector<float> up = RandomRows(kRows, kWidth, 4, 5.0F);
  std::vector<float> expected(gate.size());
  GatedActivation(model.config(), gate.data(), up.data(), expected.data(), expected.size());
  for (const size_t parts : {1, 2, 7}) {
    RandomCuts parallel(parts);
    std::vector<float> result = gate;
    ActivateRows({model.config(), stream, parallel},
                 {.data = result.data(), .stride = kWidth, .count = kRows},
                 {.data = up.data(), .stride = kWidth, .count = kRows});
    EXPECT_EQ(result, expected) << parts;
  }
}

TEST(DenseFeedForward, IsRightInEveryGeometryAndTheSameForEveryWayOfComputing) {
  constexpr size_t kRows = 13;
  for (const TestGeometry& geometry : TestGeometries()) {
    const TestModel model(geometry.config, 5);
    const size_t hidden = geometry.config.hidden;
    const std::vector<float> x = RandomRows(kRows, hidden, 6);
    const ReferenceSequence reference(model);
    for (size_t layer = 0; layer < geometry.config.layers; ++layer) {
      if (!geometry.config.IsDense(layer)) continue;
      LayerHarness plain(model, {.name = "", .stream = {}}, kRows);
      const std::vector<float> f = plain.FeedForward(layer, {}, x);
      std::vector<Numbers> expected;
      for (size_t r = 0; r < kRows; ++r) {
        expected.push_back(reference.Dense(layer, RowOf(x, hidden, r)));
      }
      EXPECT_LE(RelativeError(f, expected), kTolerance) << geometry.name << " layer " << layer;
      for (const ComputeVariant& variant : ComputeVariants()) {
        LayerHarness harness(model, variant, kRows);
        EXPECT_EQ(harness.FeedForward(layer, {}, x), f) << geometry.name << " " << variant.name;
      }
    }
  }
}

}  // namespace
}  // namespace kimi_k3
