// The geometry and the arithmetic switches of a model, read from its config.json and checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_part.h"

namespace kimi_k3 {

enum class Activation { kSitu, kSilu };

// Kimi delta attention.
struct KdaConfig {
  size_t heads = 0;
  size_t head_dim = 0;  // key = value
  size_t conv_taps = 0;
  std::optional<float> gate_lower_bound;  // absent: the softplus decay
  bool full_rank_gate = false;            // g_proj, else g_b_proj(g_a_proj x)
  size_t width() const { return heads * head_dim; }
};

// Gated multi-head latent attention.
struct MlaConfig {
  size_t heads = 0;
  size_t q_lora_rank = 0;  // 0: q_proj straight from the hidden state
  size_t kv_lora_rank = 0;
  size_t qk_nope_head_dim = 0;
  size_t qk_rope_head_dim = 0;
  size_t v_head_dim = 0;
  bool output_gate = false;
  size_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  size_t cache_width() const { return kv_lora_rank + qk_rope_head_dim; }
};

// Mixture of experts.
struct MoeConfig {
  size_t experts = 0;
  size_t experts_per_token = 0;
  size_t shared_experts = 0;  // 0: none
  size_t expert_intermediate = 0;
  size_t latent = 0;  // 0: experts read the hidden state itself
  bool latent_norm = false;
  bool softmax_router = false;  // else sigmoid
  bool renormalize = false;
  float scaling = 1.0F;
  size_t groups = 1;
  size_t groups_kept = 1;
  size_t shared_intermediate() const { return shared_experts * expert_intermediate; }
};

// Everything the arithmetic depends on. Field meanings: docs/model.md section 2a.
struct ModelConfig {
  std::string model_type;
  // "language_model." where config.json nests the text model (published K3), else empty.
  std::string name_prefix;
  size_t hidden = 0;
  size_t layers = 0;
  size_t vocabulary = 0;
  float rms_epsilon = 0;
  Activation activation = Activation::kSitu;
  float situ_beta = 1.0F;         // never 0
  float situ_linear_beta = 0.0F;  // 0: u enters as it is
  size_t attn_res_block = 0;      // 0: no attention residuals
  size_t dense_intermediate = 0;
  bool mxfp4_experts = false;  // else bf16
  KdaConfig kda;
  MlaConfig mla;
  MoeConfig moe;
  std::vector<bool> mla_layers;    // by zero-based layer; the others are KDA
  std::vector<bool> dense_layers;  // by zero-based layer; the others are MoE
  size_t max_positions = 0;        // 0: not said
  std::optional<int64_t> bos_token_id, eos_token_id, pad_token_id;
  // Of the experts that the model chooses for a token, those that are left out for speed.
  size_t experts_left_out = 0;  // not of config.json
  ModelPart part;  // not of config.json: what of the model is run, by default all of it
  // What is allowed, but unlike any published model, so that a field may have been lost: a line
  // each that names file and field.
  std::vector<std::string> warnings;

  bool IsMla(size_t layer) const { return mla_layers[layer]; }
  bool IsDense(size_t layer) const { return dense_layers[layer]; }
  // Width that routed experts read and write.
  size_t expert_width() const { return moe.latent != 0 ? moe.latent : hidden; }
  // The layers that are run: [first_layer(), end_layer()).
  size_t first_layer() const { return part.layers.first; }
  size_t end_layer() const { return part.layers.last < layers ? part.layers.last + 1 : layers; }
  size_t layers_run() const { return end_layer() - first_layer(); }
  // Those of them that have routed experts.
  size_t moe_layers() const {
    size_t count = 0;
    for (size_t layer = first_layer(); layer < end_layer(); ++layer) {
      if (!IsDense(layer)) ++count;
    }
    return count;
  }
  // Routed experts that a layer chooses from: [part.experts.first, + experts_present()).
  size_t experts_present() const {
    const size_t end = part.experts.last < moe.experts ? part.experts.last + 1 : moe.experts;
    return end - std::min(end, part.experts.first);
  }
  bool is_part() const { return layers_run() != layers || experts_present() != moe.experts; }
  // Blocks that attention residuals have gathered when layer `layer` begins; 0 without them. A part
  // begins with none: its first block is taken at the first block boundary that it comes to.
  size_t BlocksBefore(size_t layer) const {
    if (attn_res_block == 0) return 0;
    const auto boundaries = [this](size_t end) {
      return (end + attn_res_block - 1) / attn_res_block;
    };
    return boundaries(layer) - boundaries(first_layer());
  }
};

// Reads the text of a config.json, nested (`text_config`) or flat. Every problem found is listed in
// one Error(kCheckpoint) whose lines start with `source` (the file's name): missing fields, values
// that are unknown, out of range or contradict one another. Nothing is ever replaced by a default
// but where docs/model.md section 2a gives absence a meaning; of a kimi_k3, warnings tell where
// that changes what the published model computes.
ModelConfig ParseModelConfig(std::string_view json, std::string_view source);

// ParseModelConfig on DIR/config.json; the whole model.
ModelConfig LoadModelConfig(const std::filesystem::path& model_dir);

}  // namespace kimi_k3
