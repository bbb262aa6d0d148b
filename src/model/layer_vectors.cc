// The small tensors of the model, loaded once and kept widened to f32.
#include "model/layer_vectors.h"

#include "kernels/elementwise.h"

namespace kimi_k3 {
namespace {

MixVector LoadMix(WeightStream& weights, Role norm, Role proj, size_t layer) {
  MixVector mix = weights.ReadVector(norm, layer);
  const std::vector<float> projection = weights.ReadVector(proj, layer);
  for (size_t i = 0; i < mix.size(); ++i) mix[i] *= projection[i];
  return mix;
}

KdaVectors LoadKda(const KdaConfig& kda, WeightStream& weights, size_t layer) {
  KdaVectors vectors;
  vectors.q_conv = weights.ReadVector(Role::kKdaQConv, layer);
  vectors.k_conv = weights.ReadVector(Role::kKdaKConv, layer);
  vectors.v_conv = weights.ReadVector(Role::kKdaVConv, layer);
  vectors.dt_bias = weights.ReadVector(Role::kKdaDtBias, layer);
  vectors.decay_rate = weights.ReadVector(Role::kKdaALog, layer);
  vectors.decay_rate.resize(kda.heads);  // one for each head; what follows is padding
  for (float& rate : vectors.decay_rate) rate = kernels::Exp(rate);
  vectors.output_norm = weights.ReadVector(Role::kKdaONorm, layer);
  return vectors;
}

MlaVectors LoadMla(const MlaConfig& mla, WeightStream& weights, size_t layer) {
  MlaVectors vectors;
  if (mla.q_lora_rank != 0) vectors.q_a_norm = weights.ReadVector(Role::kMlaQANorm, layer);
  vectors.kv_a_norm = weights.ReadVector(Role::kMlaKvANorm, layer);
  return vectors;
}

LayerVectors LoadLayer(const ModelConfig& config, WeightStream& weights, size_t layer) {
  LayerVectors vectors;
  if (config.attn_res_block != 0) {
    vectors.attention_mix =
        LoadMix(weights, Role::kAttentionResNorm, Role::kAttentionResProj, layer);
    vectors.mlp_mix = LoadMix(weights, Role::kMlpResNorm, Role::kMlpResProj, layer);
  }
  vectors.input_norm = weights.ReadVector(Role::kInputNorm, layer);
  vectors.post_attention_norm = weights.ReadVector(Role::kPostAttentionNorm, layer);
  if (config.IsMla(layer)) {
    vectors.mla = LoadMla(config.mla, weights, layer);
  } else {
    vectors.kda = LoadKda(config.kda, weights, layer);
  }
  if (!config.IsDense(layer)) {
    vectors.moe.router_bias = weights.ReadVector(Role::kRouterBias, layer);
    if (config.moe.latent_norm) {
      vectors.moe.latent_norm = weights.ReadVector(Role::kLatentNorm, layer);
    }
  }
  return vectors;
}

}  // namespace

ModelVectors LoadModelVectors(const ModelConfig& config, WeightStream& weights) {
  ModelVectors vectors;
  vectors.layers.resize(config.layers);
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    vectors.layers[l] = LoadLayer(config, weights, l);
  }
  if (config.attn_res_block != 0) {
    vectors.output_mix = LoadMix(weights, Role::kOutputResNorm, Role::kOutputResProj, 0);
  }
  vectors.final_norm = weights.ReadVector(Role::kFinalNorm, 0);
  return vectors;
}

}  // namespace kimi_k3
