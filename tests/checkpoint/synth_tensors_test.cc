// Which tensors a made-up checkpoint holds.
#include "checkpoint/synth_tensors.h"

#include <gtest/gtest.h>

#include <set>

#include "checkpoint/synth_config.h"
#include "checkpoint/tensor_slots.h"

namespace kimi_k3 {
namespace {

SynthTensors Make(const std::string& text) {
  return {ParseModelConfig(text, "config.json"), nlohmann::json::parse(text)};
}

TEST(SynthTensors, K3HasThePublishedCountAndBytes) {
  const SynthTensors tensors = Make(GeometryConfig("k3", {}));
  EXPECT_EQ(tensors.units(), 96U);
  uint64_t count = 0;
  uint64_t bytes = 0;
  for (size_t unit = 0; unit < tensors.units(); ++unit) {
    tensors.Visit(unit, [&](const SynthTensor& tensor) {
      ++count;
      bytes += tensor.bytes;
    });
  }
  EXPECT_EQ(count, 497220U);
  EXPECT_EQ(bytes, 1560860324864U);
}

TEST(SynthTensors, EveryTensorOfTheModelIsMadeOnce) {
  const std::string text = GeometryConfig("tiny", {});
  const ModelConfig config = ParseModelConfig(text, "config.json");
  const TensorSlots slots(config);
  const SynthTensors tensors = Make(text);
  std::set<size_t> seen;
  for (size_t unit = 0; unit < tensors.units(); ++unit) {
    uint64_t bytes = 0;
    tensors.Visit(unit, [&](const SynthTensor& tensor) {
      bytes += tensor.bytes;
      const auto match = slots.Find(tensor.name);
      if (match) {
        EXPECT_TRUE(seen.insert(match->slot).second) << tensor.name;
        EXPECT_LE(unit, config.layers);
      } else {
        EXPECT_GT(unit, config.layers) << tensor.name;
      }
    });
    EXPECT_EQ(bytes, tensors.UnitBytes(unit));
  }
  EXPECT_EQ(seen.size(), slots.count());
}

TEST(SynthTensors, VisionIsMadeOnlyWhereTheConfigDescribesIt) {
  nlohmann::json config = nlohmann::json::parse(GeometryConfig("tiny", {}));
  EXPECT_EQ(Make(config.dump()).units(), 9U + 3);
  config["vision_config"]["vt_hidden_size"] = "many";
  EXPECT_EQ(Make(config.dump()).units(), 9U + 1);
  config.erase("vision_config");
  EXPECT_EQ(Make(config.dump()).units(), 9U + 1);
}

TEST(SynthTensors, DtypesAreThePublishedOnes) {
  std::set<std::string> f32;
  Make(GeometryConfig("tiny", {})).Visit(1, [&](const SynthTensor& tensor) {
    if (tensor.dtype == Dtype::kF32) f32.insert(tensor.name.substr(30));
  });
  EXPECT_EQ(f32, (std::set<std::string>{"block_sparse_moe.gate.e_score_correction_bias",
                                        "self_attn.A_log", "self_attn.dt_bias",
                                        "self_attn.k_conv1d.weight", "self_attn.o_norm.weight",
                                        "self_attn.q_conv1d.weight", "self_attn.v_conv1d.weight"}));
}

}  // namespace
}  // namespace kimi_k3
