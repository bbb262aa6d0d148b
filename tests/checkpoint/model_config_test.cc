// config.json: what is read, and that nothing is guessed.
#include "checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

json Nested() { return json::parse(GeometryConfig("k3", {})); }
json Flat() { return Nested()["text_config"]; }

ModelConfig Parse(const json& config) { return ParseModelConfig(config.dump(), "config.json"); }

std::string RefusalOfText(std::string_view text) {
  try {
    ParseModelConfig(text, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return error.what();
  }
  return "";
}
std::string RefusalOf(const json& config) { return RefusalOfText(config.dump()); }

// A config in the manner of the smaller relative: everything that may be off is off.
json Relative() {
  return json::parse(R"({
    "model_type": "kimi_linear", "hidden_size": 128, "num_hidden_layers": 4, "vocab_size": 440,
    "rms_norm_eps": 1e-05, "hidden_act": "silu", "intermediate_size": 256,
    "linear_attn_config": {"num_heads": 4, "head_dim": 32, "short_conv_kernel_size": 4,
                           "kda_layers": [1, 2, 3], "full_attn_layers": [4]},
    "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": null, "kv_lora_rank": 48,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "mla_use_nope": true,
    "num_experts": 24, "num_experts_per_token": 4, "num_shared_experts": 1,
    "moe_intermediate_size": 80, "moe_router_activation_func": "sigmoid", "moe_renormalize": true,
    "routed_scaling_factor": 2.446, "num_expert_group": 4, "topk_group": 2,
    "first_k_dense_replace": 1, "tie_word_embeddings": false, "num_nextn_predict_layers": 0})");
}

TEST(ModelConfig, ReadsTheNestedForm) {
  const ModelConfig config = Parse(Nested());
  EXPECT_EQ(config.model_type, "kimi_k3");
  EXPECT_EQ(config.name_prefix, "language_model.");
  EXPECT_EQ(config.hidden, 7168U);
  EXPECT_EQ(config.layers, 93U);
  EXPECT_EQ(config.vocabulary, 163840U);
  EXPECT_EQ(config.rms_epsilon, 1e-5F);
  EXPECT_EQ(config.activation, Activation::kSitu);
  EXPECT_EQ(config.situ_beta, 4.0F);
  EXPECT_EQ(config.situ_linear_beta, 25.0F);
  EXPECT_EQ(config.attn_res_block, 12U);
  EXPECT_EQ(config.dense_intermediate, 33792U);
  EXPECT_TRUE(config.mxfp4_experts);
  EXPECT_EQ(config.kda.heads, 96U);
  EXPECT_EQ(config.kda.head_dim, 128U);
  EXPECT_EQ(config.kda.conv_taps, 4U);
  EXPECT_EQ(config.kda.gate_lower_bound, -5.0F);
  EXPECT_TRUE(config.kda.full_rank_gate);
  EXPECT_EQ(config.mla.heads, 96U);
  EXPECT_EQ(config.mla.q_lora_rank, 1536U);
  EXPECT_EQ(config.mla.kv_lora_rank, 512U);
  EXPECT_EQ(config.mla.qk_nope_head_dim, 128U);
  EXPECT_EQ(config.mla.qk_rope_head_dim, 64U);
  EXPECT_EQ(config.mla.v_head_dim, 128U);
  EXPECT_TRUE(config.mla.output_gate);
  EXPECT_EQ(config.moe.experts, 896U);
  EXPECT_EQ(config.moe.experts_per_token, 16U);
  EXPECT_EQ(config.moe.shared_intermediate(), 6144U);
  EXPECT_EQ(config.moe.expert_intermediate, 3072U);
  EXPECT_EQ(config.moe.latent, 3584U);
  EXPECT_TRUE(config.moe.latent_norm);
  EXPECT_FALSE(config.moe.softmax_router);
  EXPECT_TRUE(config.moe.renormalize);
  EXPECT_EQ(config.moe.scaling, 1.0F);
  EXPECT_EQ(config.moe.groups, 1U);
  EXPECT_EQ(config.moe.groups_kept, 1U);
  EXPECT_EQ(config.max_positions, 1048576U);
  EXPECT_EQ(config.bos_token_id, 163584);
  EXPECT_EQ(config.eos_token_id, 163586);
  EXPECT_EQ(config.pad_token_id, 163839);
}

TEST(ModelConfig, PlacesLayersByTheOneBasedLists) {
  const ModelConfig config = Parse(Nested());
  size_t mla = 0;
  for (size_t layer = 0; layer < 93; ++layer) {
    mla += config.IsMla(layer) ? 1 : 0;
    EXPECT_EQ(config.IsDense(layer), layer == 0);
  }
  EXPECT_EQ(mla, 24U);
  EXPECT_TRUE(config.IsMla(3));
  EXPECT_TRUE(config.IsMla(91));
  EXPECT_TRUE(config.IsMla(92));
  EXPECT_FALSE(config.IsMla(0));
  EXPECT_EQ(config.BlocksBefore(0), 0U);
  EXPECT_EQ(config.BlocksBefore(93), 8U);
}

TEST(ModelConfig, ReadsTheFlatForm) {
  const ModelConfig config = Parse(Flat());
  EXPECT_EQ(config.name_prefix, "");
  EXPECT_EQ(config.hidden, 7168U);
  EXPECT_TRUE(config.mxfp4_experts);
}

TEST(ModelConfig, AbsenceMeansOff) {
  const ModelConfig config = Parse(Relative());
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_EQ(config.attn_res_block, 0U);
  EXPECT_EQ(config.BlocksBefore(3), 0U);
  EXPECT_FALSE(config.mxfp4_experts);
  EXPECT_FALSE(config.kda.gate_lower_bound);
  EXPECT_FALSE(config.kda.full_rank_gate);
  EXPECT_EQ(config.mla.q_lora_rank, 0U);
  EXPECT_FALSE(config.mla.output_gate);
  EXPECT_EQ(config.moe.latent, 0U);
  EXPECT_FALSE(config.moe.latent_norm);
  EXPECT_EQ(config.expert_width(), 128U);
  EXPECT_EQ(config.situ_beta, 1.0F);
  EXPECT_EQ(config.situ_linear_beta, 0.0F);
  EXPECT_EQ(config.max_positions, 0U);
  EXPECT_FALSE(config.bos_token_id);
  EXPECT_EQ(config.moe.groups, 4U);
  EXPECT_EQ(config.moe.groups_kept, 2U);
}

TEST(ModelConfig, AMisspeltOptionalFieldIsNotTakenForAnAbsentOne) {
  for (const auto& [name, misspelt] :
       {std::pair("activation_situ_linear_beta", "activation_situ_linear_beto"),
        std::pair("activation_situ_beta", "activation_situ_bets"),
        std::pair("attn_res_block_size", "attn_res_blocksize")}) {
    json config = Flat();
    config[misspelt] = config[name];
    config.erase(name);
    EXPECT_THAT(RefusalOf(config), AllOf(HasSubstr(name), HasSubstr(misspelt)));
  }
  json config = Flat();
  json& linear = config["linear_attn_config"];
  linear["gate_lower_bmund"] = linear["gate_lower_bound"];
  linear.erase("gate_lower_bound");
  EXPECT_THAT(RefusalOf(config), HasSubstr("gate_lower_bmund"));
}

TEST(ModelConfig, NullMeansAbsent) {
  json config = Relative();
  for (const char* name :
       {"attn_res_block_size", "routed_expert_hidden_size", "latent_moe_use_norm",
        "mla_use_output_gate", "quantization_config", "activation_situ_linear_beta",
        "activation_situ_beta", "num_shared_experts", "num_expert_group", "topk_group",
        "moe_layer_freq", "text_config"}) {
    config[name] = nullptr;
  }
  config["linear_attn_config"]["gate_lower_bound"] = nullptr;
  config["linear_attn_config"]["use_full_rank_gate"] = nullptr;
  const ModelConfig read = Parse(config);
  EXPECT_EQ(read.moe.groups, 1U);
  EXPECT_EQ(read.moe.shared_experts, 0U);
}

TEST(ModelConfig, ABetaOfZeroMeansOne) {
  json config = Flat();
  config["activation_situ_beta"] = 0;
  EXPECT_EQ(Parse(config).situ_beta, 1.0F);
  config["activation_situ_linear_beta"] = 0;
  EXPECT_THAT(RefusalOf(config), HasSubstr("activation_situ_linear_beta"));
}

// A field that got lost changes every answer and looks like nothing else.
TEST(ModelConfig, LostFieldsOfAKimiK3AreWarnedOf) {
  EXPECT_THAT(Parse(Nested()).warnings, testing::IsEmpty());
  for (const char* name : {"activation_situ_beta", "activation_situ_linear_beta"}) {
    json config = Nested();
    config["text_config"].erase(name);
    EXPECT_THAT(
        Parse(config).warnings,
        ElementsAre(AllOf(HasSubstr(fmt::format("config.json: text_config.{} is missing", name)),
                          HasSubstr("the published kimi_k3 has"))));
    config["text_config"][name] = nullptr;  // said on purpose
    EXPECT_THAT(Parse(config).warnings, testing::IsEmpty());
    config["text_config"].erase(name);
    config["text_config"]["hidden_act"] = "silu";  // which has no use for it
    EXPECT_THAT(Parse(config).warnings, ElementsAre(HasSubstr("hidden_act is \"silu\"")));
  }
  json config = Nested();
  config["text_config"]["linear_attn_config"].erase("gate_lower_bound");
  EXPECT_THAT(
      Parse(config).warnings,
      ElementsAre(HasSubstr("text_config.linear_attn_config.gate_lower_bound is missing, so "
                            "the softplus decay is used")));
  config = Nested();
  config["text_config"]["moe_router_activation_func"] = "softmax";
  EXPECT_THAT(Parse(config).warnings, ElementsAre(HasSubstr("\"softmax\"")));
  EXPECT_THAT(Parse(Relative()).warnings, testing::IsEmpty());  // another kind of model
}

TEST(ModelConfig, DenseLayersFollowBothRules) {
  json config = Relative();
  config["first_k_dense_replace"] = 2;
  config["moe_layer_freq"] = 3;
  EXPECT_THAT(Parse(config).dense_layers, ElementsAre(true, true, true, false));
}

const char* const kRequired[] = {"hidden_size",
                                 "num_hidden_layers",
                                 "vocab_size",
                                 "rms_norm_eps",
                                 "hidden_act",
                                 "linear_attn_config",
                                 "num_attention_heads",
                                 "num_key_value_heads",
                                 "kv_lora_rank",
                                 "qk_nope_head_dim",
                                 "qk_rope_head_dim",
                                 "v_head_dim",
                                 "mla_use_nope",
                                 "num_experts",
                                 "num_experts_per_token",
                                 "moe_intermediate_size",
                                 "moe_router_activation_func",
                                 "moe_renormalize",
                                 "routed_scaling_factor",
                                 "first_k_dense_replace",
                                 "intermediate_size",
                                 "tie_word_embeddings",
                                 "num_nextn_predict_layers"};
const char* const kRequiredOfKda[] = {"num_heads", "head_dim", "short_conv_kernel_size",
                                      "kda_layers", "full_attn_layers"};

TEST(ModelConfig, EachRequiredFieldIsMissedByName) {
  for (const char* name : kRequired) {
    json config = Flat();
    config.erase(name);
    EXPECT_THAT(RefusalOf(config), HasSubstr(std::string("config.json: ") + name + " is missing"));
    config[name] = nullptr;
    EXPECT_THAT(RefusalOf(config), HasSubstr(std::string(name) + " is null"));
  }
  for (const char* name : kRequiredOfKda) {
    json config = Nested();
    config["text_config"]["linear_attn_config"].erase(name);
    EXPECT_THAT(RefusalOf(config),
                HasSubstr(std::string("text_config.linear_attn_config.") + name + " is missing"));
  }
}

TEST(ModelConfig, AllMissingFieldsAreListedTogether) {
  const std::string refusal = RefusalOf(json::object());
  for (const char* name : kRequired) EXPECT_THAT(refusal, HasSubstr(name));
  EXPECT_EQ(std::count(refusal.begin(), refusal.end(), '\n') + 1,
            static_cast<long>(std::size(kRequired)));
}

TEST(ModelConfig, AMisspeltFieldIsNotReplacedByADefault) {
  json config = Nested();
  config["text_config"]["num_experts_per_tok"] = 16;
  config["text_config"].erase("num_experts_per_token");
  EXPECT_THAT(RefusalOf(config), HasSubstr("is num_experts_per_tok meant?"));
}

TEST(ModelConfig, UnknownFieldsAreIgnored) {
  json config = Nested();
  config["something"] = {{"else", 1}};
  config["text_config"]["something"] = 1e300;
  EXPECT_EQ(RefusalOf(config), "");
}

TEST(ModelConfig, SizesMustBePlainWholeNumbers) {
  const char* const sizes[] = {"hidden_size",
                               "num_hidden_layers",
                               "vocab_size",
                               "attn_res_block_size",
                               "num_attention_heads",
                               "num_key_value_heads",
                               "q_lora_rank",
                               "kv_lora_rank",
                               "qk_nope_head_dim",
                               "qk_rope_head_dim",
                               "v_head_dim",
                               "num_experts",
                               "num_experts_per_token",
                               "moe_intermediate_size",
                               "routed_expert_hidden_size",
                               "num_expert_group",
                               "topk_group",
                               "moe_layer_freq",
                               "intermediate_size"};
  const char* const bad[] = {"1e3", "\"64\"", "-1", "0", "2147483648", "true", "64.0", "1e400"};
  for (const char* name : sizes) {
    for (const char* value : bad) {
      json config = Flat();
      config[name] = "@";
      std::string text = config.dump();
      text.replace(text.find("\"@\""), 3, value);
      EXPECT_THAT(RefusalOfText(text), HasSubstr(std::string(name) + " is")) << value;
    }
  }
}

TEST(ModelConfig, SizesInsideLinearAttnConfigToo) {
  for (const char* name : {"num_heads", "head_dim", "short_conv_kernel_size"}) {
    for (const json& value : {json(0), json(-1), json("4"), json(4.0), json(1ULL << 31)}) {
      json config = Flat();
      config["linear_attn_config"][name] = value;
      EXPECT_THAT(RefusalOf(config), HasSubstr(name)) << value;
    }
  }
}

TEST(ModelConfig, UnknownValuesAreRefused) {
  const std::pair<const char*, json> changes[] = {
      {"hidden_act", "gelu"},
      {"hidden_act", "SiTU"},
      {"moe_router_activation_func", "tanh"},
      {"mla_use_nope", false},
      {"mla_use_nope", 1},
      {"tie_word_embeddings", true},
      {"num_nextn_predict_layers", 1},
      {"num_key_value_heads", 8},
      {"rms_norm_eps", 0},
      {"rms_norm_eps", "1e-5"},
      {"rms_norm_eps", -1e-5},
      {"routed_scaling_factor", 0},
      {"activation_situ_beta", -1},
      {"first_k_dense_replace", 94},
      {"num_experts_per_token", 897},
      {"num_expert_group", 5},
      {"topk_group", 2},
      {"bos_token_id", 163840},
      {"eos_token_id", -1},
      {"eos_token_id", {1, 2}},
      {"moe_intermediate_size", 3080},
      {"routed_expert_hidden_size", 3600},
      {"linear_attn_config", 3},
      {"quantization_config", "mxfp4"},
  };
  for (const auto& [name, value] : changes) {
    json config = Flat();
    config[name] = value;
    EXPECT_THAT(RefusalOf(config), HasSubstr(name)) << value;
  }
}

TEST(ModelConfig, KnownAlternativesAreAccepted) {
  json config = Flat();
  config["moe_router_activation_func"] = "softmax";
  EXPECT_TRUE(Parse(config).moe.softmax_router);
  config["hidden_act"] = "silu";
  EXPECT_EQ(Parse(config).activation, Activation::kSilu);
  config["linear_attn_config"]["gate_lower_bound"] = 0;
  EXPECT_THAT(RefusalOf(config), HasSubstr("gate_lower_bound"));
}

TEST(ModelConfig, LayerListsMustNameEveryLayerOnce) {
  const auto with = [](const char* list, const json& value) {
    json config = Flat();
    config["linear_attn_config"][list] = value;
    return RefusalOf(config);
  };
  const json full = Flat()["linear_attn_config"]["full_attn_layers"];
  json changed = full;
  changed.push_back(94);
  EXPECT_THAT(with("full_attn_layers", changed), HasSubstr("holds 94"));
  changed = full;
  changed[0] = 0;
  EXPECT_THAT(with("full_attn_layers", changed), HasSubstr("holds 0"));
  changed = full;
  changed.push_back(8);
  EXPECT_THAT(with("full_attn_layers", changed), HasSubstr("names layer 8 a second time"));
  changed = full;
  changed.push_back(5);
  EXPECT_THAT(with("full_attn_layers", changed),
              HasSubstr("names layer 5 a second time (it is already in kda_layers)"));
  changed = full;
  changed.erase(0);
  EXPECT_THAT(with("full_attn_layers", changed), HasSubstr("both lack layer 4 of 93"));
  EXPECT_THAT(with("full_attn_layers", "4, 8"), HasSubstr("full_attn_layers is \"4, 8\""));
  EXPECT_THAT(with("kda_layers", {1.5}), HasSubstr("holds 1.5"));
}

TEST(ModelConfig, GroupsMustLeaveEnoughExperts) {
  json config = Relative();
  config["topk_group"] = 1;
  config["num_experts_per_token"] = 7;
  EXPECT_THAT(RefusalOf(config), HasSubstr("only 6 experts can be chosen"));
  config["num_experts_per_token"] = 1;
  config["num_expert_group"] = 24;
  EXPECT_THAT(RefusalOf(config), HasSubstr("groups of one expert"));
}

TEST(ModelConfig, NormOfALatentNeedsALatent) {
  json config = Relative();
  config["latent_moe_use_norm"] = true;
  EXPECT_THAT(RefusalOf(config), HasSubstr("latent_moe_use_norm"));
}

TEST(ModelConfig, WidthsMatterToMxfp4Alone) {
  json config = Relative();
  config["hidden_size"] = 131;
  config["moe_intermediate_size"] = 79;
  EXPECT_EQ(RefusalOf(config), "");
  config["quantization_config"] = Flat()["quantization_config"];
  EXPECT_THAT(RefusalOf(config),
              AllOf(HasSubstr("hidden_size is 131"), HasSubstr("moe_intermediate_size is 79")));
}

TEST(ModelConfig, ProductsAreBounded) {
  json config = Flat();
  config["linear_attn_config"]["num_heads"] = 65536;
  config["linear_attn_config"]["head_dim"] = 16384;
  EXPECT_THAT(RefusalOf(config), HasSubstr("num_heads x head_dim"));
  config = Flat();
  config["num_experts"] = 65536;
  EXPECT_THAT(RefusalOf(config), HasSubstr("num_hidden_layers x num_experts"));
  config = Flat();
  config["num_attention_heads"] = 65536;
  config["num_key_value_heads"] = 65536;
  config["v_head_dim"] = 16384;
  EXPECT_THAT(RefusalOf(config), HasSubstr("num_attention_heads x"));
}

TEST(ModelConfig, BothFormsMustAgree) {
  json config = Nested();
  const json flat = Flat();
  for (const auto& [name, value] : flat.items()) {
    if (name != "model_type") config[name] = value;
  }
  EXPECT_EQ(RefusalOf(config), "");
  config["hidden_size"] = 4096;
  EXPECT_THAT(RefusalOf(config), HasSubstr("hidden_size is 4096 but text_config.hidden_size is"));
}

TEST(ModelConfig, AFieldBesideTextConfigIsNotTakenForOneInside) {
  json config = Nested();
  config["q_lora_rank"] = config["text_config"]["q_lora_rank"];
  config["text_config"].erase("q_lora_rank");
  EXPECT_THAT(RefusalOf(config), HasSubstr("q_lora_rank stands beside text_config"));
}

TEST(ModelConfig, QuantizationMayStandAtEitherLevel) {
  json config = Nested();
  config["quantization_config"] = config["text_config"]["quantization_config"];
  EXPECT_TRUE(Parse(config).mxfp4_experts);
  config["text_config"].erase("quantization_config");
  EXPECT_TRUE(Parse(config).mxfp4_experts);
  config.erase("quantization_config");
  EXPECT_FALSE(Parse(config).mxfp4_experts);
}

TEST(ModelConfig, TextConfigMustBeAnObject) {
  EXPECT_THAT(RefusalOf({{"text_config", 5}}), HasSubstr("text_config is 5"));
  EXPECT_THAT(RefusalOf(json::array()), HasSubstr("must be an object"));
}

TEST(ModelConfig, RepeatedKeysAreRefused) {
  std::string text = Flat().dump();
  text.insert(1, R"("num_experts": 896,)");
  EXPECT_THAT(RefusalOfText(text), HasSubstr("num_experts is repeated"));
}

TEST(ModelConfig, LoadsFromAFolder) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "config.json", Nested().dump());
  WriteFile(folder.path() / "._config.json", "junk");
  EXPECT_EQ(LoadModelConfig(folder.path()).layers, 93U);
}

TEST(ModelConfig, LoadNamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(LoadModelConfig(folder.path()), Error);
  WriteFile(folder.path() / "config.json", std::string(5'000'000, ' '));
  try {
    LoadModelConfig(folder.path());
    FAIL() << "a huge file was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder.path() / "config.json").string()));
  }
}

TEST(ModelConfig, ReadsThePublishedFile) {
  const std::filesystem::path path = KIMI_K3_SOURCE_DIR "/../shared/data/k3_config.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the published config is not here";
  const ModelConfig published = ParseModelConfig(ReadFile(path), "k3_config.json");
  const ModelConfig made = Parse(Nested());
  EXPECT_EQ(published.mla_layers, made.mla_layers);
  EXPECT_EQ(published.dense_layers, made.dense_layers);
  EXPECT_EQ(published.hidden, made.hidden);
  EXPECT_EQ(published.eos_token_id, made.eos_token_id);
  EXPECT_EQ(published.moe.experts, made.moe.experts);
}

}  // namespace
}  // namespace kimi_k3
