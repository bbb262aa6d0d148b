// Config files of made-up models: known geometries, with another number of layers or experts.
#include "checkpoint/synth_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/quantization_config.h"
#include "checkpoint/strict_json.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;

constexpr size_t kMlaInterval = 4;

// Layers, one-based, that are MLA in a model of `layers`: every fourth and the last two. Models too
// small for that keep one KDA layer at least.
bool IsMlaLayer(size_t layer, size_t layers) {
  if (layers < kMlaInterval) return layer == layers && layers > 1;
  return layer % kMlaInterval == 0 || layer + 1 >= layers;
}

void SetLayers(Json& text, size_t layers) {
  if (!text.contains("linear_attn_config") || !text["linear_attn_config"].is_object()) {
    Fail(ErrorKind::kCheckpoint, "the config has no linear_attn_config to list its layers in");
  }
  text["num_hidden_layers"] = layers;
  Json kda = Json::array();
  Json mla = Json::array();
  for (size_t layer = 1; layer <= layers; ++layer) {
    (IsMlaLayer(layer, layers) ? mla : kda).push_back(layer);
  }
  text["linear_attn_config"]["kda_layers"] = kda;
  text["linear_attn_config"]["full_attn_layers"] = mla;
  const auto block = text.find("attn_res_block_size");
  if (block != text.end() && block->is_number_unsigned()) {
    constexpr size_t kBlocksWanted = 3;
    const size_t longest = (layers + kBlocksWanted - 1) / kBlocksWanted;
    *block = std::min(block->get<size_t>(), std::max<size_t>(longest, 1));
  }
  const auto dense = text.find("first_k_dense_replace");
  if (dense != text.end() && dense->is_number_unsigned()) {
    *dense = std::min(dense->get<size_t>(), layers);
  }
}

void SetExperts(Json& text, size_t experts) {
  text["num_experts"] = experts;
  const auto chosen = text.find("num_experts_per_token");
  if (chosen != text.end() && chosen->is_number_unsigned()) {
    *chosen = std::min(chosen->get<size_t>(), experts);
  }
}

struct SpecialTokens {
  size_t bos, eos, media, pad;
};

// In a large vocabulary the special tokens lie as far from its end as in the published one.
SpecialTokens SpecialTokensOf(size_t vocabulary) {
  if (vocabulary >= 1024) {
    return {vocabulary - 256, vocabulary - 254, vocabulary - 235, vocabulary - 1};
  }
  const auto from_end = [&](size_t distance) {
    return vocabulary > distance ? vocabulary - distance : 0;
  };
  return {from_end(8), from_end(6), from_end(4), from_end(1)};
}

void SetVocabulary(Json& top, Json& text, size_t vocabulary) {
  const SpecialTokens tokens = SpecialTokensOf(vocabulary);
  text["vocab_size"] = vocabulary;
  for (Json* object : {&top, &text}) {
    (*object)["bos_token_id"] = tokens.bos;
    (*object)["eos_token_id"] = tokens.eos;
    (*object)["pad_token_id"] = tokens.pad;
  }
  if (top.contains("media_placeholder_token_id")) {
    top["media_placeholder_token_id"] = tokens.media;
  }
}

void Change(Json& top, const GeometryChanges& changes) {
  const bool nested = top.contains("text_config") && top["text_config"].is_object();
  Json& text = nested ? top["text_config"] : top;
  if (changes.layers) SetLayers(text, *changes.layers);
  if (changes.experts) SetExperts(text, *changes.experts);
  if (changes.vocabulary) SetVocabulary(top, text, *changes.vocabulary);
}

Json Quantization() {
  const Json weights = {
      {"dynamic", false},    {"group_size", 32},  {"num_bits", 4},  {"scale_dtype", "torch.uint8"},
      {"strategy", "group"}, {"symmetric", true}, {"type", "float"}};
  const Json group = {{"format", kMxfp4Format},
                      {"input_activations", nullptr},
                      {"output_activations", nullptr},
                      {"targets", {"Linear"}},
                      {"weights", weights}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", kMxfp4Format},
          {"ignore",
           {"re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
            "re:.*lm_head.*", "re:.*vision_tower.*", "re:.*mm_projector.*"}},
          {"kv_cache_scheme", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

// The sizes in which the two geometries differ.
struct Sizes {
  size_t hidden, layers, vocabulary, block;
  size_t kda_heads, kda_head_dim;
  size_t mla_heads, q_lora, kv_lora, nope, rope, value;
  size_t experts, chosen, expert_intermediate, latent, dense;
  size_t vision_hidden, vision_qkv, vision_intermediate, vision_heads, vision_layers, vision_grid;
};

constexpr Sizes kK3 = {.hidden = 7168,
                       .layers = 93,
                       .vocabulary = 163840,
                       .block = 12,
                       .kda_heads = 96,
                       .kda_head_dim = 128,
                       .mla_heads = 96,
                       .q_lora = 1536,
                       .kv_lora = 512,
                       .nope = 128,
                       .rope = 64,
                       .value = 128,
                       .experts = 896,
                       .chosen = 16,
                       .expert_intermediate = 3072,
                       .latent = 3584,
                       .dense = 33792,
                       .vision_hidden = 1024,
                       .vision_qkv = 1536,
                       .vision_intermediate = 4096,
                       .vision_heads = 12,
                       .vision_layers = 27,
                       .vision_grid = 64};

constexpr Sizes kTiny = {.hidden = 128,
                         .layers = 9,
                         .vocabulary = 512,
                         .block = 3,
                         .kda_heads = 3,
                         .kda_head_dim = 32,
                         .mla_heads = 4,
                         .q_lora = 64,
                         .kv_lora = 48,
                         .nope = 32,
                         .rope = 16,
                         .value = 24,
                         .experts = 16,
                         .chosen = 4,
                         .expert_intermediate = 96,
                         .latent = 64,
                         .dense = 224,
                         .vision_hidden = 16,
                         .vision_qkv = 24,
                         .vision_intermediate = 32,
                         .vision_heads = 2,
                         .vision_layers = 1,
                         .vision_grid = 4};

Json TextConfig(const Sizes& s) {
  return {{"activation_situ_beta", 4.0},
          {"activation_situ_linear_beta", 25.0},
          {"architectures", {"KimiLinearForCausalLM"}},
          {"attn_res_block_size", s.block},
          {"dtype", "bfloat16"},
          {"first_k_dense_replace", 1},
          {"hidden_act", "situ"},
          {"hidden_size", s.hidden},
          {"intermediate_size", s.dense},
          {"kv_lora_rank", s.kv_lora},
          {"latent_moe_use_norm", true},
          {"linear_attn_config",
           {{"gate_lower_bound", -5.0},
            {"head_dim", s.kda_head_dim},
            {"num_heads", s.kda_heads},
            {"short_conv_kernel_size", 4},
            {"use_full_rank_gate", true}}},
          {"max_position_embeddings", 1048576},
          {"mla_use_nope", true},
          {"mla_use_output_gate", true},
          {"model_type", "kimi_linear"},
          {"moe_intermediate_size", s.expert_intermediate},
          {"moe_layer_freq", 1},
          {"moe_renormalize", true},
          {"moe_router_activation_func", "sigmoid"},
          {"num_attention_heads", s.mla_heads},
          {"num_expert_group", 1},
          {"num_experts", s.experts},
          {"num_experts_per_token", s.chosen},
          {"num_key_value_heads", s.mla_heads},
          {"num_nextn_predict_layers", 0},
          {"num_shared_experts", 2},
          {"q_lora_rank", s.q_lora},
          {"qk_nope_head_dim", s.nope},
          {"qk_rope_head_dim", s.rope},
          {"quantization_config", Quantization()},
          {"rms_norm_eps", 1e-05},
          {"routed_expert_hidden_size", s.latent},
          {"routed_scaling_factor", 1.0},
          {"tie_word_embeddings", false},
          {"topk_group", 1},
          {"v_head_dim", s.value}};
}

Json VisionConfig(const Sizes& s) {
  return {{"init_pos_emb_height", s.vision_grid},
          {"init_pos_emb_width", s.vision_grid},
          {"merge_kernel_size", {2, 2}},
          {"patch_size", 14},
          {"qkv_hidden_size", s.vision_qkv},
          {"text_hidden_size", s.hidden},
          {"vt_hidden_size", s.vision_hidden},
          {"vt_intermediate_size", s.vision_intermediate},
          {"vt_num_attention_heads", s.vision_heads},
          {"vt_num_hidden_layers", s.vision_layers}};
}

}  // namespace

std::string GeometryConfig(std::string_view geometry, const GeometryChanges& changes) {
  if (geometry != "k3" && geometry != "tiny") {
    Fail(ErrorKind::kUsage, "--geometry: \"{}\" is not known; use k3 or tiny", geometry);
  }
  const Sizes& sizes = geometry == "k3" ? kK3 : kTiny;
  Json top = {{"architectures", {"KimiK3ForConditionalGeneration"}},
              {"dtype", "bfloat16"},
              {"media_placeholder_token_id", 0},
              {"model_type", "kimi_k3"},
              {"text_config", TextConfig(sizes)},
              {"tie_word_embeddings", false},
              {"vision_config", VisionConfig(sizes)}};
  Change(top, {changes.layers.value_or(sizes.layers), changes.experts,
               changes.vocabulary.value_or(sizes.vocabulary)});
  return top.dump(2) + "\n";
}

std::string ChangeConfig(std::string_view json, std::string_view source,
                         const GeometryChanges& changes) {
  if (!ParseStrictJson(json, source).is_object()) {
    Fail(ErrorKind::kCheckpoint, "{}: must be an object", source);
  }
  Json top = Json::parse(json);
  Change(top, changes);
  return top.dump(2) + "\n";
}

}  // namespace kimi_k3
