// Absorbed latent attention against the expanded form.
#include "model/mla.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/model_test_support.h"

namespace kimi_k3 {
namespace {

// More than one block of the attention kernel.
constexpr size_t kPositions = 71;

class Mla : public testing::TestWithParam<TestGeometry> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
  std::vector<size_t> MlaLayers() const {
    std::vector<size_t> layers;
    for (size_t l = 0; l < config().layers; ++l) {
      if (config().IsMla(l)) layers.push_back(l);
    }
    return layers;
  }
};

std::vector<float> CacheOf(const SequenceState& state, size_t layer) {
  const kernels::LatentCacheView cache = state.Cache(layer);
  std::vector<float> rows(state.positions() * cache.width);
  std::memcpy(rows.data(), cache.data, rows.size() * sizeof(float));
  return rows;
}

TEST_P(Mla, OutputsAndCacheAreRight) {
  const TestModel model(config(), 21);
  const size_t hidden = config().hidden;
  const std::vector<float> x = RandomRows(kPositions, hidden, 22, 3.0F);
  for (const size_t layer : MlaLayers()) {
    LayerHarness harness(model, {.name = "", .stream = {}}, kPositions);
    SequenceState sequence(config(), kPositions);
    const std::vector<float> a = harness.AttentionInPasses(layer, sequence, x);
    ReferenceSequence reference(model);
    std::vector<Numbers> expected;
    for (size_t r = 0; r < kPositions; ++r) {
      expected.push_back(reference.Mla(layer, RowOf(x, hidden, r)));
    }
    EXPECT_LE(RelativeError(a, expected), kTolerance) << layer;
    EXPECT_LE(RelativeError(CacheOf(sequence, layer), reference.Latents(layer)), kTolerance);
  }
}

TEST_P(Mla, EveryBitIsTheSameForEveryWayOfComputing) {
  const TestModel model(config(), 23);
  const std::vector<float> x = RandomRows(kPositions, config().hidden, 24, 3.0F);
  for (const size_t layer : MlaLayers()) {
    for (const auto type : {kernels::CacheType::kF32, kernels::CacheType::kBf16,
                            kernels::CacheType::kQ8, kernels::CacheType::kQ4}) {
      LayerHarness plain(model, {.name = "", .stream = {}}, kPositions);
      SequenceState expected_state(config(), kPositions, type);
      const std::vector<float> expected = plain.AttentionInPasses(layer, expected_state, x);
      for (const ComputeVariant& variant : ComputeVariants()) {
        LayerHarness harness(model, variant, kPositions);
        SequenceState state(config(), kPositions, type);
        EXPECT_EQ(harness.AttentionInPasses(layer, state, x), expected) << variant.name;
      }
    }
  }
}

TEST_P(Mla, SequencesOfOnePassSeeTheirOwnPositionsAlone) {
  const TestModel model(config(), 25);
  const size_t hidden = config().hidden;
  constexpr size_t kOf = 9;
  const std::vector<float> x = RandomRows(3 * kOf, hidden, 26, 3.0F);
  for (const size_t layer : MlaLayers()) {
    LayerHarness harness(model, ComputeVariants()[3], 3 * kOf);
    std::vector<float> expected;
    for (size_t s = 0; s < 3; ++s) {
      SequenceState alone(config(), kOf);
      const auto own = std::span(x).subspan(s * kOf * hidden, kOf * hidden);
      const auto a = harness.AttentionInPasses(layer, alone, own);
      expected.insert(expected.end(), a.begin(), a.end());
    }
    SequenceState a(config(), kOf), b(config(), kOf), c(config(), kOf);
    const std::vector<RowRun> runs = {{.sequence = &a, .first = 0, .count = kOf},
                                      {.sequence = &b, .first = kOf, .count = kOf},
                                      {.sequence = &c, .first = 2 * kOf, .count = kOf}};
    EXPECT_EQ(harness.Attention(layer, runs, x), expected);
  }
}

TEST_P(Mla, ASmallerCacheCostsItsRoundingAndNoMore) {
  const TestModel model(config(), 27);
  const std::vector<float> x = RandomRows(kPositions, config().hidden, 28, 3.0F);
  for (const size_t layer : MlaLayers()) {
    LayerHarness harness(model, {.name = "", .stream = {}}, kPositions);
    SequenceState exact(config(), kPositions);
    const std::vector<float> a = harness.AttentionInPasses(layer, exact, x);
    for (const auto& [type, most] : {std::pair{kernels::CacheType::kBf16, 0.02},
                                     {kernels::CacheType::kQ8, 0.05},
                                     {kernels::CacheType::kQ4, 0.6}}) {
      SequenceState rounded(config(), kPositions, type);
      const std::vector<float> b = harness.AttentionInPasses(layer, rounded, x);
      const double error = RelativeError(b.data(), Numbers(a.begin(), a.end()));
      EXPECT_GT(error, kTolerance);
      EXPECT_LT(error, most);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, Mla, testing::ValuesIn(TestGeometries()), GeometryName());

// The scores of a real model reach far beyond what exp can take without its maximum.
TEST(MlaSoftmax, LargeScoresStayFinite) {
  TestModel model(TestConfig("AllMlaDense"), 29);
  std::vector<float> weights = model.Get(Role::kMlaQB, 0).values;
  for (float& weight : weights) weight *= 300.0F;
  model.Set(Role::kMlaQB, 0, 0, weights);
  LayerHarness harness(model, {.name = "", .stream = {}}, kPositions);
  SequenceState sequence(model.config(), kPositions);
  const size_t hidden = model.config().hidden;
  const std::vector<float> x = RandomRows(kPositions, hidden, 30);
  const std::vector<float> a = harness.AttentionInPasses(0, sequence, x);
  ReferenceSequence reference(model);
  std::vector<Numbers> expected;
  for (size_t r = 0; r < kPositions; ++r) {
    expected.push_back(reference.Mla(0, RowOf(x, hidden, r)));
  }
  // Scores in the hundreds, rounded to f32, move the softmax by about a hundred thousandth.
  EXPECT_LE(RelativeError(a, expected), 1e-4);
}

}  // namespace
}  // namespace kimi_k3
