// The mixture of experts: routing, arrival, and what it says of damaged weights.
#include "model/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kimi_k3/error.h"
#include "model/model_test_support.h"

namespace kimi_k3 {
namespace {

constexpr size_t kRows = 21;

class Moe : public testing::TestWithParam<TestGeometry> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
  std::vector<size_t> MoeLayers() const {
    std::vector<size_t> layers;
    for (size_t l = 0; l < config().layers; ++l) {
      if (!config().IsDense(l)) layers.push_back(l);
    }
    return layers;
  }
};

TEST_P(Moe, EveryRowIsRight) {
  const TestModel model(config(), 31);
  const std::vector<float> x = RandomRows(kRows, config().hidden, 32);
  const ReferenceSequence reference(model);
  for (const size_t layer : MoeLayers()) {
    LayerHarness harness(model, {.name = "", .stream = {}}, kRows);
    const std::vector<float> f = harness.FeedForward(layer, {}, x);
    std::vector<Numbers> expected;
    for (size_t r = 0; r < kRows; ++r) {
      expected.push_back(reference.Moe(layer, RowOf(x, config().hidden, r)));
    }
    EXPECT_LE(RelativeError(f, expected), kTolerance) << layer;
  }
}

// The numbers of rows lie on both sides of where the experts' order of arrival is let through.
TEST_P(Moe, EveryBitIsTheSameForEveryNumberOfRowsAndEveryWayOfComputing) {
  const TestModel model(config(), 33);
  const size_t hidden = config().hidden;
  const std::vector<float> x = RandomRows(kRows, hidden, 34);
  for (const size_t layer : MoeLayers()) {
    LayerHarness plain(model, {.name = "", .stream = {}}, kRows);
    const std::vector<float> expected = plain.FeedForward(layer, {}, x);
    EXPECT_EQ(plain.stream().latest_order(), ExpertOrder::kAscending);
    for (const ComputeVariant& variant : ComputeVariants()) {
      LayerHarness harness(model, variant, kRows);
      for (const size_t count :
           {size_t{1}, size_t{2}, kArrivalOrderRows, kArrivalOrderRows + 1, kRows}) {
        for (const size_t first : {size_t{0}, kRows - count}) {
          const auto rows = std::span(x).subspan(first * hidden, count * hidden);
          const std::vector<float> f = harness.FeedForward(layer, {}, rows);
          ASSERT_TRUE(std::equal(f.begin(), f.end(),
                                 expected.begin() + static_cast<ptrdiff_t>(first * hidden)))
              << variant.name << ", " << count << " rows from " << first;
          EXPECT_EQ(harness.stream().latest_order(),
                    count <= kArrivalOrderRows ? ExpertOrder::kArrival : ExpertOrder::kAscending);
        }
      }
    }
  }
}

TEST_P(Moe, ExactlyTheExpertsThatTheRowsUseAreRequested) {
  const TestModel model(config(), 35);
  const size_t hidden = config().hidden;
  const std::vector<float> x = RandomRows(5, hidden, 36);
  const ReferenceSequence reference(model);
  for (const size_t layer : MoeLayers()) {
    LayerHarness harness(model, {.name = "", .stream = {}}, 5);
    harness.FeedForward(layer, {}, x);
    std::vector<int32_t> expected;
    for (size_t r = 0; r < 5; ++r) {
      for (const size_t e : reference.Route(layer, RowOf(x, hidden, r)).experts) {
        expected.push_back(static_cast<int32_t>(e));
      }
    }
    std::ranges::sort(expected);
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    EXPECT_EQ(harness.stream().latest_visits(), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, Moe, testing::ValuesIn(TestGeometries()), GeometryName());

// The experts that one row is sent to when all of its scores are equal but for the bias.
std::vector<int32_t> ExpertsByBias(const std::string& geometry, const std::vector<float>& bias) {
  TestModel model(TestConfig(geometry), 37);
  const ModelConfig& config = model.config();
  const size_t layer = 1;
  model.Set(Role::kRouter, layer, 0, std::vector<float>(config.moe.experts * config.hidden, 0.0F));
  model.Set(Role::kRouterBias, layer, 0, bias);
  LayerHarness harness(model, {.name = "", .stream = {}}, 1);
  harness.FeedForward(layer, {}, RandomRows(1, config.hidden, 38));
  return harness.stream().latest_visits();
}

TEST(MoeRouting, TiesGoToTheLowerExpert) {
  EXPECT_EQ(ExpertsByBias("KimiK3Like", std::vector<float>(11, 0.0F)),
            (std::vector<int32_t>{0, 1, 2}));
  std::vector<float> bias(11, 0.0F);
  bias[7] = 1.0F;
  EXPECT_EQ(ExpertsByBias("KimiK3Like", bias), (std::vector<int32_t>{0, 1, 7}));
}

TEST(MoeRouting, GroupsAreChosenByTheirTwoBest) {
  // The single best expert stands in a group that is not kept: groups 1 and 2 sum to more.
  std::vector<float> bias(16, 0.0F);
  bias[3] = 5.0F;
  bias[4] = bias[5] = 4.0F;
  bias[8] = bias[11] = 3.0F;
  EXPECT_EQ(ExpertsByBias("KimiLinearLike", bias), (std::vector<int32_t>{4, 5, 8, 11}));
}

TEST(MoeRouting, ExpertsOutsideTheKeptGroupsAreNeverChosenThoughAllInsideAreWorse) {
  // Kept groups with experts below everything outside still give all four.
  std::vector<float> bias(16, 0.0F);
  bias[12] = bias[13] = bias[0] = bias[1] = 9.0F;
  bias[14] = bias[15] = bias[2] = bias[3] = -50.0F;
  bias[4] = 8.0F;
  EXPECT_EQ(ExpertsByBias("KimiLinearLike", bias), (std::vector<int32_t>{0, 1, 12, 13}));
}

TEST(MoeRouting, TheBiasChoosesAndNeverWeighs) {
  TestModel model(TestConfig("AllExperts"), 39);
  const size_t hidden = model.config().hidden;
  const std::vector<float> x = RandomRows(4, hidden, 40);
  LayerHarness before(model, {.name = "", .stream = {}}, 4);
  const std::vector<float> expected = before.FeedForward(0, {}, x);
  model.Set(Role::kRouterBias, 0, 0, {3.0F, -2.0F, 0.5F, 7.0F});
  LayerHarness after(model, {.name = "", .stream = {}}, 4);
  EXPECT_EQ(after.FeedForward(0, {}, x), expected);
}

TEST(MoeErrors, ScoresThatAreNotFiniteNameLayerAndPosition) {
  const TestModel model(TestConfig("KimiK3Like"), 41);
  const size_t hidden = model.config().hidden;
  SequenceState a(model.config(), 100), b(model.config(), 100);
  a.Advance(40);
  b.Advance(7);
  const std::vector<RowRun> runs = {{.sequence = &a, .first = 0, .count = 3},
                                    {.sequence = &b, .first = 3, .count = 2}};
  LayerHarness harness(model, {.name = "", .stream = {}}, 5);
  const std::vector<float> good = RandomRows(5, hidden, 42);
  const std::vector<float> expected = harness.FeedForward(3, runs, good);
  const struct {
    size_t row;
    const char* position;
  } cases[] = {{0, "position 40"}, {2, "position 42"}, {3, "position 7"}, {4, "position 8"}};
  for (const float bad : {NAN, HUGE_VALF, -HUGE_VALF}) {
    for (const auto& c : cases) {
      std::vector<float> x = good;
      x[c.row * hidden + 5] = bad;
      try {
        harness.FeedForward(3, runs, x);
        FAIL() << "no error for row " << c.row;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kRun);
        const std::string message = error.what();
        EXPECT_NE(message.find("layer 3"), std::string::npos) << message;
        EXPECT_NE(message.find(c.position), std::string::npos) << message;
      }
    }
  }
}

TEST(MoeErrors, ABiasThatIsNotFiniteIsRefused) {
  TestModel model(TestConfig("KimiK3Like"), 43);
  std::vector<float> bias(model.config().moe.experts, 0.0F);
  bias.back() = NAN;
  model.Set(Role::kRouterBias, 1, 0, bias);
  LayerHarness harness(model, {.name = "", .stream = {}}, 1);
  EXPECT_THROW(harness.FeedForward(1, {}, RandomRows(1, model.config().hidden, 44)), Error);
}

}  // namespace
}  // namespace kimi_k3
