// Kimi delta attention against the plain recurrence.
#include "model/kda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/model_test_support.h"

namespace kimi_k3 {
namespace {

constexpr size_t kPositions = 23;

class Kda : public testing::TestWithParam<TestGeometry> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
  std::vector<size_t> KdaLayers() const {
    std::vector<size_t> layers;
    for (size_t l = 0; l < config().layers; ++l) {
      if (!config().IsMla(l)) layers.push_back(l);
    }
    return layers;
  }
  SequenceState StateOf(kernels::StateType type) const {
    return {config(), kPositions, kernels::CacheType::kF32, 0, type};
  }
  std::vector<float> Inputs(uint64_t seed) const {
    return RandomRows(kPositions, config().hidden, seed);
  }
};

// The last taps - 1 inputs of the three convolutions, the oldest first, zeros before the first.
Numbers ExpectedTail(const ReferenceSequence& reference, size_t layer, const KdaConfig& kda) {
  Numbers tail;
  for (size_t m = 0; m < 3; ++m) {
    const auto& inputs = reference.ConvInputs(layer, m);
    for (size_t back = kda.conv_taps - 1; back > 0; --back) {
      const Numbers row =
          back <= inputs.size() ? inputs[inputs.size() - back] : Numbers(kda.width(), 0.0);
      tail.insert(tail.end(), row.begin(), row.end());
    }
  }
  return tail;
}

// The KDA state of a layer, kept in f32.
std::vector<float> StateNumbers(SequenceState& sequence, size_t layer) {
  const std::span<const std::byte> state = sequence.KdaState(layer);
  std::vector<float> numbers(state.size() / sizeof(float));
  std::ranges::copy(state, std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

TEST_P(Kda, OutputsStateAndTailsAreRightAfterFewAndManyPositions) {
  const TestModel model(config(), 7);
  const std::vector<float> x = Inputs(8);
  for (const size_t layer : KdaLayers()) {
    LayerHarness harness(model, {.name = "", .stream = {}, .rows_per_pass = 5}, kPositions);
    SequenceState sequence(config(), kPositions);
    ReferenceSequence reference(model);
    std::vector<Numbers> expected;
    std::vector<float> outputs;
    for (const size_t count : {size_t{2}, kPositions - 2}) {
      const auto part =
          std::span(x).subspan(expected.size() * config().hidden, count * config().hidden);
      const auto a = harness.AttentionInPasses(layer, sequence, part);
      outputs.insert(outputs.end(), a.begin(), a.end());
      for (size_t r = 0; r < count; ++r) {
        expected.push_back(reference.Kda(layer, RowOf(part, config().hidden, r)));
      }
      EXPECT_LE(RelativeError(outputs, expected), kTolerance) << layer;
      EXPECT_LE(RelativeError(StateNumbers(sequence, layer).data(), reference.KdaState(layer)),
                kTolerance);
      const Numbers tail = ExpectedTail(reference, layer, config().kda);
      ASSERT_EQ(sequence.ConvTail(layer).size(), tail.size());
      if (!tail.empty()) {
        EXPECT_LE(RelativeError(sequence.ConvTail(layer).data(), tail), kTolerance);
      }
    }
  }
}

TEST_P(Kda, EveryBitIsTheSameForEveryWayOfComputing) {
  const TestModel model(config(), 9);
  const std::vector<float> x = Inputs(10);
  for (const auto type : {kernels::StateType::kF32, kernels::StateType::kBf16}) {
    for (const size_t layer : KdaLayers()) {
      LayerHarness plain(model, {.name = "", .stream = {}}, kPositions);
      SequenceState expected_state = StateOf(type);
      const std::vector<float> expected = plain.AttentionInPasses(layer, expected_state, x);
      for (const ComputeVariant& variant : ComputeVariants()) {
        LayerHarness harness(model, variant, kPositions);
        SequenceState state = StateOf(type);
        EXPECT_EQ(harness.AttentionInPasses(layer, state, x), expected) << variant.name;
        EXPECT_TRUE(std::ranges::equal(state.KdaState(layer), expected_state.KdaState(layer)));
        EXPECT_TRUE(std::ranges::equal(state.ConvTail(layer), expected_state.ConvTail(layer)));
      }
    }
  }
}

TEST_P(Kda, AStateInBf16IsWithinRoundingOfTheExactOne) {
  const TestModel model(config(), 21);
  const std::vector<float> x = Inputs(22);
  for (const size_t layer : KdaLayers()) {
    LayerHarness harness(model, {.name = "", .stream = {}}, kPositions);
    SequenceState sequence = StateOf(kernels::StateType::kBf16);
    ReferenceSequence reference(model);
    std::vector<Numbers> expected;
    for (size_t r = 0; r < kPositions; ++r) {
      expected.push_back(reference.Kda(layer, RowOf(x, config().hidden, r)));
    }
    const double error = RelativeError(harness.AttentionInPasses(layer, sequence, x), expected);
    EXPECT_LE(error, 0.02) << layer;
    EXPECT_GT(error, kTolerance) << layer;
  }
}

TEST_P(Kda, SequencesOfOnePassDoNotTouchOneAnother) {
  const TestModel model(config(), 11);
  const size_t hidden = config().hidden;
  const std::vector<float> x = Inputs(12);
  for (const size_t layer : KdaLayers()) {
    LayerHarness harness(model, ComputeVariants()[2], kPositions);
    SequenceState alone(config(), kPositions);
    const std::vector<float> expected = harness.AttentionInPasses(layer, alone, x);
    // Two sequences take the same rows, one behind the other; the third is a bystander.
    SequenceState a(config(), kPositions), b(config(), kPositions), c(config(), kPositions);
    std::vector<float> of_a, of_b;
    for (size_t done_a = 0, done_b = 0; done_b < kPositions;) {
      const size_t more_a = std::min<size_t>(4, kPositions - done_a);
      const size_t more_b = std::min<size_t>(3, kPositions - done_b);
      std::vector<float> rows(x.begin() + static_cast<ptrdiff_t>(done_b * hidden),
                              x.begin() + static_cast<ptrdiff_t>((done_b + more_b) * hidden));
      rows.insert(rows.end(), x.begin() + static_cast<ptrdiff_t>(done_a * hidden),
                  x.begin() + static_cast<ptrdiff_t>((done_a + more_a) * hidden));
      std::vector<RowRun> runs = {{.sequence = &b, .first = 0, .count = more_b}};
      if (more_a != 0) runs.push_back({.sequence = &a, .first = more_b, .count = more_a});
      const std::vector<float> out = harness.Attention(layer, runs, rows);
      const auto cut = out.begin() + static_cast<ptrdiff_t>(more_b * hidden);
      of_b.insert(of_b.end(), out.begin(), cut);
      of_a.insert(of_a.end(), cut, out.end());
      done_a += more_a;
      done_b += more_b;
    }
    EXPECT_EQ(of_a, expected);
    EXPECT_EQ(of_b, expected);
    EXPECT_TRUE(
        std::ranges::all_of(c.KdaState(layer), [](std::byte one) { return one == std::byte{0}; }));
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, Kda, testing::ValuesIn(TestGeometries()), GeometryName());

// Softplus is taken as x itself above 20 and never clamped: the state of a head whose gate is far
// open is forgotten at once, however large the gate.
TEST(KdaDecay, AFarOpenGateForgetsEverythingInBothForms) {
  for (const char* name : {"KimiK3Like", "KimiLinearLike"}) {
    TestModel model(TestConfig(name), 13);
    const KdaConfig& kda = model.config().kda;
    model.Set(Role::kKdaDtBias, 0, 0, std::vector<float>(kda.width(), 80.0F));
    model.Set(Role::kKdaALog, 0, 0, std::vector<float>(kda.heads, 0.25F));
    LayerHarness harness(model, {.name = "", .stream = {}}, kPositions);
    SequenceState sequence(model.config(), kPositions);
    ReferenceSequence reference(model);
    const size_t hidden = model.config().hidden;
    const std::vector<float> x = RandomRows(kPositions, hidden, 14);
    const std::vector<float> a = harness.AttentionInPasses(0, sequence, x);
    std::vector<Numbers> expected;
    for (size_t r = 0; r < kPositions; ++r) {
      expected.push_back(reference.Kda(0, RowOf(x, hidden, r)));
    }
    EXPECT_LE(RelativeError(a, expected), kTolerance) << name;
  }
}

// A rate of its own for every head: taking A_log by channel would show.
TEST(KdaDecay, TheRateBelongsToTheHead) {
  TestModel model(TestConfig("KimiK3Like"), 15);
  const KdaConfig& kda = model.config().kda;
  const size_t hidden = model.config().hidden;
  const std::vector<float> x = RandomRows(2, hidden, 16);
  const auto state_after = [&](const std::vector<float>& a_log) {
    model.Set(Role::kKdaALog, 0, 0, a_log);
    LayerHarness harness(model, {.name = "", .stream = {}}, 2);
    SequenceState sequence(model.config(), 2);
    harness.AttentionInPasses(0, sequence, x);
    return StateNumbers(sequence, 0);
  };
  std::vector<float> a_log(kda.heads, 0.0F);
  const std::vector<float> before = state_after(a_log);
  a_log[1] = 3.0F;
  const std::vector<float> after = state_after(a_log);
  const size_t size = kda.head_dim * kda.head_dim;
  for (size_t h = 0; h < kda.heads; ++h) {
    for (size_t i = 0; i < kda.head_dim; ++i) {
      const auto row = static_cast<ptrdiff_t>(h * size + i * kda.head_dim);
      const bool same = std::equal(before.begin() + row,
                                   before.begin() + row + static_cast<ptrdiff_t>(kda.head_dim),
                                   after.begin() + row);
      EXPECT_EQ(same, h != 1) << "head " << h << " key " << i;
    }
  }
}

}  // namespace
}  // namespace kimi_k3
