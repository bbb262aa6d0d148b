// Tests of the views of an expert and of widening.
#include "residency/expert_view.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

TEST(ViewExpert, HasTheShapesOfTheConfig) {
  for (const char* name : {"k3", "kimi-linear"}) {
    const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint(name));
    const ModelConfig& config = checkpoint.config();
    size_t layer = 0;
    while (config.IsDense(layer)) ++layer;
    const ExpertLocation location = checkpoint.Expert(layer, 0);
    const std::vector<std::byte> zeros(location.gate.weights.bytes);
    const ExpertWeights e =
        ViewExpert(checkpoint, layer, 0, location, [&](const ByteRange&) { return zeros.data(); });
    for (const kernels::WeightView* view : {&e.gate, &e.up}) {
      EXPECT_EQ(view->rows, config.moe.expert_intermediate);
      EXPECT_EQ(view->columns, config.expert_width());
    }
    EXPECT_EQ(e.down.rows, config.expert_width());
    EXPECT_EQ(e.down.columns, config.moe.expert_intermediate);
    EXPECT_EQ(e.gate.type,
              config.mxfp4_experts ? kernels::WeightType::kMxfp4 : kernels::WeightType::kBf16);
    EXPECT_EQ(e.gate.scales != nullptr, config.mxfp4_experts);
  }
}

TEST(ViewExpert, UnpackedWeightsKeepTheTypeTheyAreStoredIn) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("kimi-linear"));
  size_t layer = 0;
  while (checkpoint.config().IsDense(layer)) ++layer;
  ExpertLocation location = checkpoint.Expert(layer, 0);
  location.up.dtype = Dtype::kF32;
  const std::vector<std::byte> zeros(location.gate.weights.bytes);
  const ExpertWeights e =
      ViewExpert(checkpoint, layer, 0, location, [&](const ByteRange&) { return zeros.data(); });
  EXPECT_EQ(e.gate.type, kernels::WeightType::kBf16);
  EXPECT_EQ(e.up.type, kernels::WeightType::kF32);
}

TEST(ViewExpert, RefusesNanScalesNamingTheTensor) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  size_t layer = 0;
  while (checkpoint.config().IsDense(layer)) ++layer;
  const ExpertLocation location = checkpoint.Expert(layer, 2);
  const std::vector<std::byte> good(location.gate.weights.bytes);
  const std::vector<std::byte> bad(location.gate.weights.bytes, std::byte{0xff});
  for (const Role role : {Role::kExpertGate, Role::kExpertUp, Role::kExpertDown}) {
    const ExpertMatrixLocation& m = role == Role::kExpertGate ? location.gate
                                    : role == Role::kExpertUp ? location.up
                                                              : location.down;
    try {
      ViewExpert(checkpoint, layer, 2, location, [&](const ByteRange& range) {
        return range.offset == m.scales.offset ? bad.data() : good.data();
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_NE(std::string(error.what()).find(checkpoint.TensorName(role, layer, 2)),
                std::string::npos);
    }
  }
}

TEST(WidenRow, TakesBothTypesAtAnyAlignment) {
  const std::vector<float> want = {1.5F, -0.25F, 3.0F};
  std::vector<std::byte> memory(20);
  std::memcpy(memory.data() + 1, want.data(), 12);
  std::vector<float> got(3);
  WidenRow(Dtype::kF32, memory.data() + 1, got);
  EXPECT_EQ(got, want);
  for (size_t i = 0; i < 3; ++i) {
    std::memcpy(memory.data() + 1 + 2 * i, reinterpret_cast<const char*>(&want[i]) + 2, 2);
  }
  WidenRow(Dtype::kBf16, memory.data() + 1, got);
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace kimi_k3
