// Tests of choosing the matrices of an overlay.
#include "overlay/overlay_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "overlay/overlay_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

std::set<std::string> NamesOf(const std::vector<OverlayUnit>& units) {
  std::set<std::string> names;
  for (const OverlayUnit& unit : units) {
    for (const OverlayCandidate& matrix : unit.matrices) names.insert(matrix.name);
  }
  return names;
}

std::string PlanRefusal(const std::vector<std::string>& only,
                        const std::vector<std::string>& except) {
  try {
    PlanOverlay(Checkpoint::Open(TrainedModel()), Dtype::kQ8, only, except);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return {};
}

TEST(OverlayPlan, HasAFileForEachLayerAndOneForTheHead) {
  const auto units = PlanOverlay(Checkpoint::Open(TrainedModel()), Dtype::kQ8, {}, {});
  ASSERT_EQ(units.size(), 10U);
  EXPECT_EQ(units.front().file_name, "layer-00000.safetensors");
  EXPECT_EQ(units.back().file_name, "head.safetensors");
  for (const OverlayUnit& unit : units) EXPECT_TRUE(IsOverlayFileName(unit.file_name));
  EXPECT_FALSE(IsOverlayFileName("model.safetensors"));
}

TEST(OverlayPlan, LeavesRoutersToTheLosslessFormAndToWhoAsksForThem) {
  const Checkpoint model = Checkpoint::Open(TrainedModel());
  const std::string router = model.TensorName(Role::kRouter, 3);
  EXPECT_FALSE(NamesOf(PlanOverlay(model, Dtype::kQ8, {}, {})).contains(router));
  EXPECT_TRUE(NamesOf(PlanOverlay(model, Dtype::kCodedBf16, {}, {})).contains(router));
  EXPECT_TRUE(NamesOf(PlanOverlay(model, Dtype::kQ8, {"*.3.*gate.weight"}, {})).contains(router));
}

TEST(OverlayPlan, TakesNeitherVectorsNorExpertsNorTheEmbedding) {
  for (const std::string& name :
       NamesOf(PlanOverlay(Checkpoint::Open(TrainedModel()), Dtype::kCodedBf16, {}, {}))) {
    EXPECT_EQ(name.find("norm"), std::string::npos) << name;
    EXPECT_EQ(name.find(".experts."), std::string::npos) << name;
    EXPECT_EQ(name.find("embed"), std::string::npos) << name;
  }
}

TEST(OverlayPlan, TakesWhatThePatternsSay) {
  const Checkpoint model = Checkpoint::Open(TrainedModel());
  const auto only = PlanOverlay(model, Dtype::kQ4, {"*.layers.1.self_attn.*", "*lm_head*"}, {});
  ASSERT_EQ(only.size(), 2U);
  EXPECT_EQ(only[0].matrices.size(), 8U);
  EXPECT_EQ(only[1].matrices.size(), 1U);
  const auto without = NamesOf(PlanOverlay(model, Dtype::kQ4, {}, {"*lm_head*", "*.mlp.*"}));
  EXPECT_EQ(without.size(), 110U - 1 - 3);
  EXPECT_EQ(PlanOverlay(model, Dtype::kQ4, {"*.self_attn.*"}, {"*.layers.[0-7].*"}).size(), 1U);
}

TEST(OverlayPlan, RefusesPatternsThatFitNothingAndChoicesThatLeaveNothing) {
  EXPECT_THAT(PlanRefusal({"*.nothing.*"}, {}), HasSubstr("--only \"*.nothing.*\": fits"));
  EXPECT_THAT(PlanRefusal({}, {"*.experts.*"}), HasSubstr("--except \"*.experts.*\": fits"));
  EXPECT_THAT(PlanRefusal({"*lm_head*"}, {"*"}), HasSubstr("no matrix is left"));
}

TEST(OverlayPlan, ExpectsTheBytesThatTheFormTakes) {
  const auto units = PlanOverlay(Checkpoint::Open(TrainedModel()), Dtype::kQ8, {}, {});
  uint64_t weights = 0;
  for (const OverlayUnit& unit : units) {
    for (const OverlayCandidate& matrix : unit.matrices) {
      weights += matrix.base.rows * matrix.base.columns;
    }
  }
  EXPECT_EQ(ExpectedOverlayBytes(units, Dtype::kQ8), weights / 32 * 34);
  EXPECT_EQ(ExpectedOverlayBytes(units, Dtype::kQ4), weights / 32 * 18);
}

}  // namespace
}  // namespace kimi_k3
