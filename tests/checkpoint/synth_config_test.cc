// Made-up configs are valid ones, whatever is changed.
#include "checkpoint/synth_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/model_config.h"

namespace kimi_k3 {
namespace {

ModelConfig Parse(const std::string& text) { return ParseModelConfig(text, "config.json"); }

TEST(SynthConfig, K3HasThePublishedLayers) {
  const ModelConfig config = Parse(GeometryConfig("k3", {}));
  for (size_t layer = 0; layer < 93; ++layer) {
    EXPECT_EQ(config.IsMla(layer), (layer + 1) % 4 == 0 || layer == 92) << layer;
  }
  EXPECT_EQ(config.attn_res_block, 12U);
}

TEST(SynthConfig, TinyHasAllFeatures) {
  const ModelConfig config = Parse(GeometryConfig("tiny", {}));
  EXPECT_NE(config.attn_res_block, 0U);
  EXPECT_GE(config.BlocksBefore(config.layers), 3U);
  EXPECT_TRUE(config.mxfp4_experts);
  EXPECT_TRUE(config.kda.gate_lower_bound);
  EXPECT_TRUE(config.kda.full_rank_gate);
  EXPECT_TRUE(config.mla.output_gate);
  EXPECT_NE(config.mla.q_lora_rank, 0U);
  EXPECT_TRUE(config.moe.latent_norm);
  EXPECT_NE(config.moe.shared_experts, 0U);
  EXPECT_TRUE(config.IsDense(0));
  EXPECT_TRUE(config.IsMla(config.layers - 1) && config.IsMla(config.layers - 2));
}

TEST(SynthConfig, EveryNumberOfLayersAndExpertsIsConsistent) {
  for (const char* geometry : {"k3", "tiny"}) {
    for (size_t layers = 1; layers <= 30; ++layers) {
      const ModelConfig config = Parse(GeometryConfig(geometry, {layers, layers, 20 * layers}));
      EXPECT_EQ(config.layers, layers);
      EXPECT_EQ(config.moe.experts, layers);
      EXPECT_EQ(config.vocabulary, 20 * layers);
      EXPECT_FALSE(config.IsMla(0));
      EXPECT_EQ(config.IsMla(layers - 1), layers > 1);
      if (layers >= 4) {
        EXPECT_TRUE(config.IsMla(layers - 2));
      }
    }
  }
}

TEST(SynthConfig, ChangesAGivenConfigNestedOrFlat) {
  const std::string nested = GeometryConfig("tiny", {});
  const ModelConfig changed = Parse(ChangeConfig(nested, "c", {13, 5, 2000}));
  EXPECT_EQ(changed.layers, 13U);
  EXPECT_EQ(changed.moe.experts, 5U);
  EXPECT_EQ(changed.eos_token_id, 2000 - 254);
  const std::string flat = nlohmann::json::parse(nested)["text_config"].dump();
  EXPECT_EQ(Parse(ChangeConfig(flat, "c", {6, {}, {}})).layers, 6U);
  EXPECT_EQ(Parse(ChangeConfig(flat, "c", {})).layers, 9U);
}

TEST(SynthConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(GeometryConfig("k4", {}), Error);
  EXPECT_THROW(ChangeConfig("[]", "c", {}), Error);
  EXPECT_THROW(ChangeConfig("{", "c", {}), Error);
  EXPECT_THROW(ChangeConfig(R"({"linear_attn_config": 5})", "c", {6, {}, {}}), Error);
}

}  // namespace
}  // namespace kimi_k3
