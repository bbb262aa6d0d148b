// A small model made of random numbers, held in memory as it would be stored on disk.
#include "model/test_model.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>

#include "base/bf16.h"

namespace kimi_k3 {
namespace {

using kernels::WeightType;

void StoreF32(TestTensor& tensor) {
  tensor.type = WeightType::kF32;
  tensor.data.resize(tensor.values.size() * sizeof(float));
  std::memcpy(tensor.data.data(), tensor.values.data(), tensor.data.size());
}

void StoreBf16(TestTensor& tensor) {
  tensor.type = WeightType::kBf16;
  tensor.data.resize(tensor.values.size() * sizeof(uint16_t));
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const uint16_t bits = FloatToBf16(tensor.values[i]);
    std::memcpy(tensor.data.data() + i * sizeof(bits), &bits, sizeof(bits));
    tensor.values[i] = Bf16ToFloat(bits);
  }
}

// Random nibbles under random scales, whose numbers are about 1 / sqrt(columns) large.
void MakeMxfp4(TestTensor& tensor, std::mt19937_64& random) {
  constexpr std::array<float, 8> kMagnitudes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  constexpr size_t kGroup = kernels::kMxfp4GroupColumns;
  const int middle = 126 - static_cast<int>(std::lround(std::log2(tensor.columns) / 2));
  tensor.type = WeightType::kMxfp4;
  tensor.data.resize(tensor.values.size() / 2);
  tensor.scales.resize(tensor.values.size() / kGroup);
  for (uint8_t& scale : tensor.scales) {
    scale = static_cast<uint8_t>(middle - 2 + static_cast<int>(random() % 4));
  }
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const auto nibble = static_cast<uint8_t>(random() % 16);
    tensor.data[i / 2] |= static_cast<std::byte>(i % 2 == 0 ? nibble : nibble << 4);
    const float magnitude = std::ldexp(kMagnitudes[nibble % 8], tensor.scales[i / kGroup] - 127);
    tensor.values[i] = nibble >= 8 ? -magnitude : magnitude;
  }
}

// The middle and the spread of a role's numbers, so that no part of the arithmetic stays idle.
std::pair<float, float> MiddleAndSpread(const TensorSpec& spec) {
  switch (spec.role) {
    case Role::kKdaALog:
      return {0.5F, 1.0F};
    case Role::kKdaDtBias:
      return {-0.5F, 1.5F};
    case Role::kRouterBias:
      return {0.0F, 0.2F};
    case Role::kOutputResProj:
    case Role::kAttentionResProj:
    case Role::kMlpResProj:
      return {0.0F, 2.0F / std::sqrt(static_cast<float>(spec.columns))};
    case Role::kKdaQConv:
    case Role::kKdaKConv:
    case Role::kKdaVConv:
      return {0.1F, 0.7F};
    case Role::kEmbedding:
      return {0.0F, 1.0F};
    default:
      break;
  }
  if (spec.kind == TensorKind::kVector) return {1.0F, 0.4F};
  return {0.0F, 1.5F / std::sqrt(static_cast<float>(spec.columns))};
}

ModelConfig KimiK3Like() {
  ModelConfig config;
  config.model_type = "kimi_k3";
  config.hidden = 40;
  config.layers = 6;
  config.vocabulary = 61;
  config.rms_epsilon = 1e-5F;
  config.activation = Activation::kSitu;
  config.situ_beta = 4;
  config.situ_linear_beta = 25;
  config.attn_res_block = 2;
  config.dense_intermediate = 51;
  config.mxfp4_experts = true;
  config.kda = {.heads = 3,
                .head_dim = 13,
                .conv_taps = 4,
                .gate_lower_bound = -5.0F,
                .full_rank_gate = true};
  config.mla = {.heads = 5,
                .q_lora_rank = 21,
                .kv_lora_rank = 35,
                .qk_nope_head_dim = 9,
                .qk_rope_head_dim = 3,
                .v_head_dim = 7,
                .output_gate = true};
  config.moe = {.experts = 11,
                .experts_per_token = 3,
                .shared_experts = 2,
                .expert_intermediate = 32,
                .latent = 64,
                .latent_norm = true,
                .renormalize = true};
  config.mla_layers = {false, false, true, false, true, true};
  config.dense_layers = {true, false, false, false, false, false};
  return config;
}

ModelConfig KimiLinearLike() {
  ModelConfig config = KimiK3Like();
  config.model_type = "kimi_linear";
  config.hidden = 33;
  config.layers = 4;
  config.vocabulary = 17;
  config.activation = Activation::kSilu;
  config.attn_res_block = 0;
  config.dense_intermediate = 29;
  config.mxfp4_experts = false;
  config.kda = {.heads = 5, .head_dim = 3, .conv_taps = 3, .gate_lower_bound = {}};
  config.mla = {.heads = 3,
                .q_lora_rank = 0,
                .kv_lora_rank = 19,
                .qk_nope_head_dim = 5,
                .qk_rope_head_dim = 2,
                .v_head_dim = 11};
  config.moe = {.experts = 16,
                .experts_per_token = 4,
                .shared_experts = 1,
                .expert_intermediate = 13,
                .renormalize = true,
                .scaling = 2.446F,
                .groups = 4,
                .groups_kept = 2};
  config.mla_layers = {false, true, false, true};
  config.dense_layers = {true, false, true, false};
  return config;
}

// A block of one layer, one tap, one expert a row by softmax, nothing shared, no linear beta.
ModelConfig Smallest() {
  ModelConfig config = KimiK3Like();
  config.hidden = 17;
  config.layers = 3;
  config.vocabulary = 5;
  config.rms_epsilon = 1e-3F;
  config.situ_beta = 1;
  config.situ_linear_beta = 0;
  config.attn_res_block = 1;
  config.mxfp4_experts = false;
  config.kda = {.heads = 1, .head_dim = 1, .conv_taps = 1, .gate_lower_bound = -2.0F};
  config.mla = {.heads = 1,
                .q_lora_rank = 1,
                .kv_lora_rank = 1,
                .qk_nope_head_dim = 1,
                .qk_rope_head_dim = 1,
                .v_head_dim = 1,
                .output_gate = true};
  config.moe = {.experts = 3,
                .experts_per_token = 1,
                .expert_intermediate = 7,
                .latent = 5,
                .softmax_router = true,
                .renormalize = true,
                .scaling = 0.5F};
  config.mla_layers = {false, true, false};
  config.dense_layers = {false, false, false};
  return config;
}

// Attention alone: MLA and dense layers throughout, a block longer than the model.
ModelConfig AllMlaDense() {
  ModelConfig config = KimiK3Like();
  config.layers = 2;
  config.vocabulary = 40;
  config.attn_res_block = 12;
  config.dense_intermediate = 600;
  config.mla_layers = {true, true};
  config.dense_layers = {true, true};
  return config;
}

// Every row goes to every expert, by softmax and without renormalisation; KDA layers alone.
ModelConfig AllExperts() {
  ModelConfig config = KimiK3Like();
  config.layers = 2;
  config.hidden = 32;
  config.activation = Activation::kSilu;
  config.kda.heads = 2;
  config.kda.head_dim = 16;
  config.moe = {.experts = 4,
                .experts_per_token = 4,
                .shared_experts = 1,
                .expert_intermediate = 64,
                .softmax_router = true};
  config.mla_layers = {false, false};
  config.dense_layers = {false, false};
  return config;
}

}  // namespace

TestModel::TestModel(ModelConfig config, uint64_t seed) : config_(std::move(config)) {
  for (const TensorSpec& spec : TensorSpecs(config_, {})) Add(spec, 0, 0, seed);
  for (size_t layer = 0; layer < config_.layers; ++layer) {
    for (const TensorSpec& spec : TensorSpecs(config_, layer)) {
      const size_t count = spec.kind == TensorKind::kExpert ? config_.moe.experts : 1;
      for (size_t expert = 0; expert < count; ++expert) Add(spec, layer, expert, seed);
    }
  }
}

void TestModel::Add(const TensorSpec& spec, size_t layer, size_t expert, uint64_t seed) {
  TestTensor tensor;
  tensor.rows = spec.rows;
  tensor.columns = spec.columns;
  tensor.values.resize(spec.rows * spec.columns);
  std::mt19937_64 random(seed * 1000003 + static_cast<size_t>(spec.role) * 10007 + layer * 101 +
                         expert);
  if (spec.kind == TensorKind::kExpert && config_.mxfp4_experts) {
    MakeMxfp4(tensor, random);
  } else {
    const auto [middle, spread] = MiddleAndSpread(spec);
    std::uniform_real_distribution<float> numbers(middle - spread, middle + spread);
    for (float& value : tensor.values) value = numbers(random);
    if (spec.kind != TensorKind::kExpert && random() % 2 == 0) {
      StoreF32(tensor);
    } else {
      StoreBf16(tensor);
    }
  }
  tensors_[{spec.role, layer, expert}] = std::move(tensor);
}

const TestTensor& TestModel::Get(Role role, size_t layer, size_t expert) const {
  const auto found = tensors_.find({role, layer, expert});
  if (found == tensors_.end()) {
    throw std::logic_error("the test model has no " + std::string(RoleName(role)) + " in layer " +
                           std::to_string(layer));
  }
  return found->second;
}

void TestModel::Set(Role role, size_t layer, size_t expert, const std::vector<float>& values) {
  TestTensor& tensor = tensors_.at({role, layer, expert});
  if (values.size() != tensor.values.size()) throw std::logic_error("a tensor of another size");
  tensor.values = values;
  tensor.scales.clear();
  StoreF32(tensor);
}

std::vector<TestGeometry> TestGeometries() {
  return {{"KimiK3Like", KimiK3Like()},
          {"KimiLinearLike", KimiLinearLike()},
          {"Smallest", Smallest()},
          {"AllMlaDense", AllMlaDense()},
          {"AllExperts", AllExperts()}};
}

ModelConfig TestConfig(const std::string& name) {
  for (TestGeometry& geometry : TestGeometries()) {
    if (geometry.name == name) return std::move(geometry.config);
  }
  throw std::logic_error("no geometry is called " + name);
}

}  // namespace kimi_k3
