// The small tensors of the model, loaded once and kept widened to f32.
#pragma once

#include <vector>

#include "checkpoint/model_config.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// An attention residual's norm and projection, multiplied element by element (docs/model.md section
// 3: only the product enters). Empty where the model has no attention residuals.
using MixVector = std::vector<float>;

struct KdaVectors {
  std::vector<float> q_conv, k_conv, v_conv;  // [width, taps]
  std::vector<float> dt_bias;                 // [width]
  std::vector<float> decay_rate;              // [heads]: exp(A_log)
  std::vector<float> output_norm;             // [head_dim]
};

struct MlaVectors {
  std::vector<float> q_a_norm;   // [q_lora_rank], empty without
  std::vector<float> kv_a_norm;  // [kv_lora_rank]
};

struct MoeVectors {
  std::vector<float> router_bias;  // [experts]
  std::vector<float> latent_norm;  // [latent], empty without
};

struct LayerVectors {
  MixVector attention_mix, mlp_mix;
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  KdaVectors kda;                                      // of a KDA layer
  MlaVectors mla;                                      // of an MLA layer
  MoeVectors moe;                                      // of a MoE layer
};

struct ModelVectors {
  std::vector<LayerVectors> layers;  // of all layers; empty for those that are not run
  MixVector output_mix;
  std::vector<float> final_norm;  // [hidden]
};

// Reads them all through the stream; throws what WeightStream::ReadVector throws.
ModelVectors LoadModelVectors(const ModelConfig& config, WeightStream& weights);

}  // namespace kimi_k3
