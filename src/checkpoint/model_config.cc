// Reads config.json into a ModelConfig; refuses everything that is not understood.
#include "checkpoint/model_config.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/quantization_config.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

using nlohmann::json;

constexpr Presence kRequired = Presence::kRequired;
constexpr Presence kOptional = Presence::kOptional;

// Bounds far above any model of the family. With them no product of sizes that the engine forms
// can overflow, and no table made from a config alone is large.
constexpr uint64_t kMostLayers = 10'000;
constexpr uint64_t kMostWidth = uint64_t{1} << 24;
constexpr uint64_t kMostHidden = uint64_t{1} << 20;
constexpr uint64_t kMostVocabulary = uint64_t{1} << 24;
constexpr uint64_t kMostHeads = uint64_t{1} << 16;
constexpr uint64_t kMostHeadDim = uint64_t{1} << 14;
constexpr uint64_t kMostTaps = 256;
constexpr uint64_t kMostExperts = uint64_t{1} << 16;
constexpr uint64_t kMostExpertsInAllLayers = 1'000'000;
constexpr uint64_t kMostPositions = uint64_t{1} << 40;
constexpr uint64_t kMxfp4Group = 32;

// Fields read from the text model's object.
constexpr std::array kTextFields = {
    "hidden_size",
    "num_hidden_layers",
    "vocab_size",
    "rms_norm_eps",
    "hidden_act",
    "activation_situ_beta",
    "activation_situ_linear_beta",
    "attn_res_block_size",
    "linear_attn_config",
    "num_attention_heads",
    "num_key_value_heads",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "mla_use_nope",
    "mla_use_output_gate",
    "num_experts",
    "num_experts_per_token",
    "num_shared_experts",
    "moe_intermediate_size",
    "routed_expert_hidden_size",
    "latent_moe_use_norm",
    "moe_router_activation_func",
    "moe_renormalize",
    "routed_scaling_factor",
    "num_expert_group",
    "topk_group",
    "first_k_dense_replace",
    "moe_layer_freq",
    "intermediate_size",
};
// Fields of the text model that a nested config may also state at the top.
constexpr std::array kSharedFields = {
    "quantization_config", "tie_word_embeddings", "num_nextn_predict_layers", "bos_token_id",
    "eos_token_id",        "pad_token_id",        "max_position_embeddings"};

// The object that holds the text model's fields, with what the top level adds to it.
struct TextModel {
  json object;
  std::string path;
  bool nested = false;
};

// A field that stands both inside text_config and beside it must say the same twice.
void MergeTopField(const json& top, std::string_view name, bool shared, std::string_view source,
                   json& text, ProblemList& problems) {
  const auto outer = top.find(name);
  if (outer == top.end() || outer->is_null()) return;
  const auto inner = text.find(name);
  if (inner == text.end()) {
    if (shared) {
      text[std::string(name)] = *outer;
    } else {
      problems.Add("{}: {} stands beside text_config instead of inside it", source, name);
    }
  } else if (*inner != *outer) {
    problems.Add("{}: {} is {} but text_config.{} is {}; which of them holds?", source, name,
                 JsonExcerpt(*outer), name, JsonExcerpt(*inner));
  }
}

TextModel FindTextModel(const json& top, std::string_view source, ProblemList& problems) {
  const auto nested = top.find("text_config");
  if (nested == top.end() || nested->is_null()) return {top, "", false};
  if (!nested->is_object()) {
    Fail(ErrorKind::kCheckpoint, "{}: text_config is {}; it must be an object", source,
         JsonExcerpt(*nested));
  }
  TextModel text{*nested, "text_config", true};
  for (const char* name : kTextFields) {
    MergeTopField(top, name, false, source, text.object, problems);
  }
  for (const char* name : kSharedFields) {
    MergeTopField(top, name, true, source, text.object, problems);
  }
  return text;
}

class Reader {
 public:
  Reader(const TextModel& text, std::string_view source, ProblemList& problems)
      : object_(text.object),
        path_(text.path),
        source_(source),
        problems_(problems),
        fields_(object_, source, path_, problems) {}

  ModelConfig Read() {
    ReadTrunk();
    ReadActivation();
    ReadKda();
    ReadMla();
    ReadMoe();
    ReadExpertGroups();
    ReadDenseLayers();
    ReadQuantization();
    ReadUnsupported();
    ReadTokens();
    return std::move(config_);
  }

 private:
  // A size into `out`, which keeps its value where the field is absent or wrong.
  void Size(std::string_view name, uint64_t most, size_t& out, Presence presence = kRequired,
            uint64_t least = 1) {
    if (const auto value = fields_.Size(name, {least, most}, presence)) out = *value;
  }

  void Flag(std::string_view name, bool& out, Presence presence) {
    if (const auto value = fields_.Flag(name, presence)) out = *value;
  }

  // A product that buffers are sized by.
  void Bound(std::string_view what, uint64_t a, uint64_t b, uint64_t most) {
    if (a != 0 && b > most / a) {
      problems_.Add("{}: {} is {} x {}, more than the {} supported", source_, what, a, b, most);
    }
  }

  void ReadTrunk() {
    if (const auto type = fields_.Text("model_type", kOptional)) config_.model_type = *type;
    Size("hidden_size", kMostHidden, config_.hidden);
    Size("num_hidden_layers", kMostLayers, config_.layers);
    Size("vocab_size", kMostVocabulary, config_.vocabulary);
    Size("attn_res_block_size", kMostLayers, config_.attn_res_block, kOptional);
    Size("max_position_embeddings", kMostPositions, config_.max_positions, kOptional);
    if (const auto epsilon = fields_.Number("rms_norm_eps", {1e-30, 1.0}, kRequired)) {
      config_.rms_epsilon = static_cast<float>(*epsilon);
    }
  }

  void ReadActivation() {
    const auto name = fields_.Text("hidden_act", kRequired);
    if (name && *name == "silu") {
      config_.activation = Activation::kSilu;
    } else if (name && *name != "situ") {
      fields_.Refuse("hidden_act", fmt::format("is \"{}\"; only \"situ\" and \"silu\" are known",
                                               Printable(*name, 60)));
    }
    constexpr double kMostBeta = 1e6;
    if (const auto beta = fields_.Number("activation_situ_beta", {0.0, kMostBeta}, kOptional)) {
      config_.situ_beta = *beta == 0 ? 1.0F : static_cast<float>(*beta);
    }
    if (const auto beta =
            fields_.Number("activation_situ_linear_beta", {1e-6, kMostBeta}, kOptional)) {
      config_.situ_linear_beta = static_cast<float>(*beta);
    }
  }

  void ReadKda() {
    const json* object = fields_.Object("linear_attn_config", kRequired);
    if (object == nullptr) return;
    const std::string path = fields_.Path("linear_attn_config");
    ConfigFields kda(*object, source_, path, problems_);
    config_.kda.heads = kda.Size("num_heads", {1, kMostHeads}, kRequired).value_or(0);
    config_.kda.head_dim = kda.Size("head_dim", {1, kMostHeadDim}, kRequired).value_or(0);
    config_.kda.conv_taps =
        kda.Size("short_conv_kernel_size", {1, kMostTaps}, kRequired).value_or(0);
    Bound(path + ".num_heads x head_dim", config_.kda.heads, config_.kda.head_dim, kMostWidth);
    if (const auto bound = kda.Number("gate_lower_bound", {-1e4, -1e-6}, kOptional)) {
      config_.kda.gate_lower_bound = static_cast<float>(*bound);
    }
    config_.kda.full_rank_gate = kda.Flag("use_full_rank_gate", kOptional).value_or(false);
    ReadLayerLists(kda);
  }

  // The two one-based lists must together name every layer exactly once.
  void ReadLayerLists(ConfigFields& kda) {
    const uint64_t most = config_.layers == 0 ? kMostLayers : config_.layers;
    const auto linear = kda.SizeList("kda_layers", {1, most}, kRequired);
    const auto full = kda.SizeList("full_attn_layers", {1, most}, kRequired);
    if (!linear || !full || config_.layers == 0) return;
    std::vector<const char*> owner(config_.layers, nullptr);
    config_.mla_layers.assign(config_.layers, false);
    for (const auto& [name, list] :
         {std::pair{"kda_layers", &*linear}, std::pair{"full_attn_layers", &*full}}) {
      for (const uint64_t layer : *list) {
        const char*& held = owner[layer - 1];
        if (held != nullptr) {
          kda.Refuse(
              name, fmt::format("names layer {} a second time (it is already in {})", layer, held));
        }
        held = name;
        config_.mla_layers[layer - 1] = list == &*full;
      }
    }
    for (size_t layer = 1; layer <= config_.layers; ++layer) {
      if (owner[layer - 1] == nullptr) {
        kda.Refuse("kda_layers", fmt::format("and full_attn_layers both lack layer {} of {}", layer,
                                             config_.layers));
      }
    }
  }

  void ReadMla() {
    MlaConfig& mla = config_.mla;
    Size("num_attention_heads", kMostHeads, mla.heads);
    size_t kv_heads = 0;
    Size("num_key_value_heads", kMostHeads, kv_heads);
    if (kv_heads != 0 && mla.heads != 0 && kv_heads != mla.heads) {
      fields_.Refuse("num_key_value_heads",
                     fmt::format("is {}, but num_attention_heads is {}; they must be equal",
                                 kv_heads, mla.heads));
    }
    Size("q_lora_rank", kMostWidth, mla.q_lora_rank, kOptional);
    Size("kv_lora_rank", kMostWidth, mla.kv_lora_rank);
    Size("qk_nope_head_dim", kMostHeadDim, mla.qk_nope_head_dim);
    Size("qk_rope_head_dim", kMostHeadDim, mla.qk_rope_head_dim);
    Size("v_head_dim", kMostHeadDim, mla.v_head_dim);
    Flag("mla_use_output_gate", mla.output_gate, kOptional);
    const auto no_rotation = fields_.Flag("mla_use_nope", kRequired);
    if (no_rotation && !*no_rotation) {
      fields_.Refuse("mla_use_nope", "is false; rotary position encoding is not supported");
    }
    Bound("num_attention_heads x qk head width", mla.heads, mla.qk_head_dim(), kMostWidth);
    Bound("num_attention_heads x kv_b_proj head rows", mla.heads,
          mla.qk_nope_head_dim + mla.v_head_dim, kMostWidth);
  }

  void ReadMoe() {
    MoeConfig& moe = config_.moe;
    Size("num_experts", kMostExperts, moe.experts);
    Size("num_experts_per_token", kMostExperts, moe.experts_per_token);
    Size("num_shared_experts", kMostExperts, moe.shared_experts, kOptional, 0);
    Size("moe_intermediate_size", kMostWidth, moe.expert_intermediate);
    Size("routed_expert_hidden_size", kMostWidth, moe.latent, kOptional);
    Flag("latent_moe_use_norm", moe.latent_norm, kOptional);
    if (moe.latent_norm && moe.latent == 0) {
      fields_.Refuse("latent_moe_use_norm",
                     "is true, but there is no routed_expert_hidden_size to norm");
    }
    Flag("moe_renormalize", moe.renormalize, kRequired);
    if (const auto scale = fields_.Number("routed_scaling_factor", {1e-6, 1e6}, kRequired)) {
      moe.scaling = static_cast<float>(*scale);
    }
    const auto router = fields_.Text("moe_router_activation_func", kRequired);
    moe.softmax_router = router && *router == "softmax";
    if (router && *router != "softmax" && *router != "sigmoid") {
      fields_.Refuse("moe_router_activation_func",
                     fmt::format("is \"{}\"; only \"sigmoid\" and \"softmax\" are known",
                                 Printable(*router, 60)));
    }
    Bound("num_shared_experts x moe_intermediate_size", moe.shared_experts, moe.expert_intermediate,
          kMostWidth);
    Bound("num_hidden_layers x num_experts", config_.layers, moe.experts, kMostExpertsInAllLayers);
  }

  void ReadExpertGroups() {
    MoeConfig& moe = config_.moe;
    Size("num_expert_group", kMostExperts, moe.groups, kOptional);
    Size("topk_group", kMostExperts, moe.groups_kept, kOptional);
    if (moe.experts == 0) return;
    if (moe.experts % moe.groups != 0) {
      fields_.Refuse("num_expert_group", fmt::format("is {}, which does not divide num_experts {}",
                                                     moe.groups, moe.experts));
      return;
    }
    const size_t group = moe.experts / moe.groups;
    if (moe.groups_kept > moe.groups) {
      fields_.Refuse("topk_group", fmt::format("is {}, more than num_expert_group {}",
                                               moe.groups_kept, moe.groups));
    } else if (moe.groups_kept < moe.groups && group < 2) {
      fields_.Refuse("num_expert_group",
                     "makes groups of one expert; a group's score is the sum "
                     "of its two best");
    } else if (moe.experts_per_token > moe.groups_kept * group) {
      fields_.Refuse("num_experts_per_token",
                     fmt::format("is {}, but only {} experts can be chosen", moe.experts_per_token,
                                 moe.groups_kept * group));
    }
  }

  void ReadDenseLayers() {
    size_t first = 0;
    size_t frequency = 1;
    Size("first_k_dense_replace", config_.layers == 0 ? kMostLayers : config_.layers, first,
         kRequired, 0);
    Size("moe_layer_freq", kMostLayers, frequency, kOptional);
    Size("intermediate_size", kMostWidth, config_.dense_intermediate);
    for (size_t layer = 0; layer < config_.layers; ++layer) {
      config_.dense_layers.push_back(layer < first || layer % frequency != 0);
    }
  }

  void ReadQuantization() {
    const json* object = fields_.Object("quantization_config", kOptional);
    if (object == nullptr) return;
    config_.mxfp4_experts = true;
    CheckQuantizationConfig(*object, source_, fields_.Path("quantization_config"), problems_);
    if (config_.moe.expert_intermediate % kMxfp4Group != 0) {
      fields_.Refuse("moe_intermediate_size", NoMultiple(config_.moe.expert_intermediate));
    }
    if (config_.expert_width() % kMxfp4Group != 0) {
      fields_.Refuse(config_.moe.latent != 0 ? "routed_expert_hidden_size" : "hidden_size",
                     NoMultiple(config_.expert_width()));
    }
  }

  static std::string NoMultiple(size_t width) {
    return fmt::format("is {}; MXFP4 experts need a multiple of {}", width, kMxfp4Group);
  }

  void ReadUnsupported() {
    const auto tied = fields_.Flag("tie_word_embeddings", kRequired);
    if (tied && *tied) {
      fields_.Refuse("tie_word_embeddings", "is true; only models with their own lm_head are read");
    }
    const auto predicted = fields_.Size("num_nextn_predict_layers", {0, kMostLayers}, kRequired);
    if (predicted && *predicted != 0) {
      fields_.Refuse(
          "num_nextn_predict_layers",
          fmt::format("is {}; next-token prediction layers are not supported", *predicted));
    }
  }

  void ReadTokens() {
    const uint64_t most = config_.vocabulary == 0 ? kMostVocabulary : config_.vocabulary - 1;
    for (const auto& [name, out] : {std::pair{"bos_token_id", &config_.bos_token_id},
                                    std::pair{"eos_token_id", &config_.eos_token_id},
                                    std::pair{"pad_token_id", &config_.pad_token_id}}) {
      if (const auto id = fields_.Size(name, {0, most}, kOptional)) {
        *out = static_cast<int64_t>(*id);
      }
    }
  }

  const json& object_;
  std::string path_;
  std::string source_;
  ProblemList& problems_;
  ConfigFields fields_;
  ModelConfig config_;
};

// Of the fields that the answers of a kimi_k3 depend on: those that are missing though absence has
// a meaning (null states it), and values that no published one has.
class OddFields {
 public:
  OddFields(const TextModel& text, std::string_view source, ModelConfig& config)
      : text_(text), source_(source), config_(config) {}

  void Warn() {
    if (config_.activation == Activation::kSitu) {
      WarnIfAbsent(text_.object, "", "activation_situ_beta", "1 is used", "4");
      WarnIfAbsent(text_.object, "", "activation_situ_linear_beta",
                   "the linear part stays unbounded", "25");
    } else {
      Add("hidden_act is \"silu\"", "\"situ\"");
    }
    WarnIfAbsent(text_.object.at("linear_attn_config"), "linear_attn_config.", "gate_lower_bound",
                 "the softplus decay is used", "-5");
    if (config_.moe.softmax_router) {
      Add("moe_router_activation_func is \"softmax\"", "\"sigmoid\"");
    }
  }

 private:
  void WarnIfAbsent(const json& object, std::string_view path, std::string_view name,
                    std::string_view effect, std::string_view published) {
    if (object.contains(name)) return;
    Add(fmt::format("{}{} is missing, so {} (null says that it is meant)", path, name, effect),
        published);
  }

  void Add(std::string_view what, std::string_view published) {
    config_.warnings.push_back(
        fmt::format("{}: {}{}{}; the published kimi_k3 has {}, and every answer depends on it",
                    source_, text_.path, text_.nested ? "." : "", what, published));
  }

  const TextModel& text_;
  std::string_view source_;
  ModelConfig& config_;
};

}  // namespace

ModelConfig ParseModelConfig(std::string_view text, std::string_view source) {
  constexpr size_t kListedProblems = 100;
  const json top = ParseStrictJson(text, source);
  if (!top.is_object()) {
    Fail(ErrorKind::kCheckpoint, "{}: is {}; it must be an object", source, JsonExcerpt(top));
  }
  ProblemList problems(kListedProblems);
  const TextModel model = FindTextModel(top, source, problems);
  ModelConfig config = Reader(model, source, problems).Read();
  if (model.nested) {
    config.name_prefix = "language_model.";
    if (const auto type = top.find("model_type"); type != top.end() && type->is_string()) {
      config.model_type = type->get<std::string>();
    }
  }
  problems.ThrowIfAny();
  if (config.model_type == "kimi_k3") OddFields(model, source, config).Warn();
  return config;
}

ModelConfig LoadModelConfig(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "config.json";
  return ParseModelConfig(ReadTextFile(path, kConfigBytesLimit), path.string());
}

}  // namespace kimi_k3
