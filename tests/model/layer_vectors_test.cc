// Loading the small tensors.
#include "model/layer_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "kimi_k3/error.h"
#include "model/fake_weight_stream.h"

namespace kimi_k3 {
namespace {

// The stream throws for a tensor that the model does not have, so that loading at all shows that
// nothing else is asked for.
TEST(LayerVectors, EveryGeometryHasExactlyWhatItsLayersNeed) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    const TestModel model(config, 3);
    FakeWeightStream stream(model);
    const ModelVectors vectors = LoadModelVectors(config, stream);
    ASSERT_EQ(vectors.layers.size(), config.layers);
    EXPECT_EQ(vectors.final_norm, model.Get(Role::kFinalNorm).values);
    const size_t mix = config.attn_res_block != 0 ? config.hidden : 0;
    EXPECT_EQ(vectors.output_mix.size(), mix);
    for (size_t l = 0; l < config.layers; ++l) {
      const LayerVectors& layer = vectors.layers[l];
      EXPECT_EQ(layer.attention_mix.size(), mix);
      EXPECT_EQ(layer.mlp_mix.size(), mix);
      EXPECT_EQ(layer.input_norm, model.Get(Role::kInputNorm, l).values);
      EXPECT_EQ(layer.post_attention_norm, model.Get(Role::kPostAttentionNorm, l).values);
      EXPECT_EQ(layer.kda.decay_rate.size(), config.IsMla(l) ? 0 : config.kda.heads);
      EXPECT_EQ(layer.mla.q_a_norm.size(), config.IsMla(l) ? config.mla.q_lora_rank : 0);
      EXPECT_EQ(layer.mla.kv_a_norm.size(), config.IsMla(l) ? config.mla.kv_lora_rank : 0);
      EXPECT_EQ(layer.moe.router_bias.size(), config.IsDense(l) ? 0 : config.moe.experts);
      EXPECT_EQ(layer.moe.latent_norm.size(),
                !config.IsDense(l) && config.moe.latent_norm ? config.moe.latent : 0);
      if (config.IsMla(l)) continue;
      EXPECT_EQ(layer.kda.q_conv, model.Get(Role::kKdaQConv, l).values);
      EXPECT_EQ(layer.kda.k_conv, model.Get(Role::kKdaKConv, l).values);
      EXPECT_EQ(layer.kda.v_conv, model.Get(Role::kKdaVConv, l).values);
      EXPECT_EQ(layer.kda.dt_bias, model.Get(Role::kKdaDtBias, l).values);
      EXPECT_EQ(layer.kda.output_norm, model.Get(Role::kKdaONorm, l).values);
    }
  }
}

TEST(LayerVectors, NormAndProjectionOfAResidualAreMultiplied) {
  const TestModel model(TestConfig("KimiK3Like"), 4);
  FakeWeightStream stream(model);
  const ModelVectors vectors = LoadModelVectors(model.config(), stream);
  const auto expect_product = [&](const MixVector& mix, Role norm, Role proj, size_t layer) {
    for (size_t i = 0; i < model.config().hidden; ++i) {
      EXPECT_EQ(mix[i], model.Get(norm, layer).values[i] * model.Get(proj, layer).values[i]);
    }
  };
  expect_product(vectors.layers[3].attention_mix, Role::kAttentionResNorm, Role::kAttentionResProj,
                 3);
  expect_product(vectors.layers[3].mlp_mix, Role::kMlpResNorm, Role::kMlpResProj, 3);
  expect_product(vectors.output_mix, Role::kOutputResNorm, Role::kOutputResProj, 0);
}

// Gives A_log as some checkpoints store it: padded with numbers that mean nothing.
class PaddingStream : public FakeWeightStream {
 public:
  using FakeWeightStream::FakeWeightStream;
  std::vector<float> ReadVector(Role role, size_t layer) override {
    std::vector<float> values = FakeWeightStream::ReadVector(role, layer);
    if (role == Role::kKdaALog) values.resize(values.size() + 10, 99.0F);
    return values;
  }
};

TEST(LayerVectors, TheDecayRateIsTheExponentialOfTheFirstEntriesOfALog) {
  const TestModel model(TestConfig("KimiK3Like"), 5);
  PaddingStream stream(model);
  const ModelVectors vectors = LoadModelVectors(model.config(), stream);
  const std::vector<float>& rates = vectors.layers[0].kda.decay_rate;
  ASSERT_EQ(rates.size(), model.config().kda.heads);
  for (size_t h = 0; h < rates.size(); ++h) {
    const double expected = std::exp(static_cast<double>(model.Get(Role::kKdaALog, 0).values[h]));
    EXPECT_NEAR(static_cast<double>(rates[h]), expected, 1e-6 * expected);
  }
}

TEST(LayerVectors, AReadThatFailsAtAnyPointIsReported) {
  const TestModel model(TestConfig("KimiK3Like"), 6);
  FakeWeightStream whole(model);
  LoadModelVectors(model.config(), whole);
  ASSERT_GT(whole.operations(), 50U);
  for (uint64_t n = 1; n <= whole.operations(); ++n) {
    FakeWeightStream stream(model, {.fail_at = n});
    try {
      LoadModelVectors(model.config(), stream);
      FAIL() << "no error at read " << n;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
    }
  }
}

}  // namespace
}  // namespace kimi_k3
