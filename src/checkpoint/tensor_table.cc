// The one table of what a tensor is: name, role, shape, kind, and when a model has it.
#include "checkpoint/tensor_table.h"

#include <algorithm>

namespace kimi_k3 {
namespace {

using Config = ModelConfig;

// Where a role occurs.
enum class Scope { kModel, kLayer };

struct Shape {
  size_t rows;
  size_t columns;
};

// One role: everything but the numbers, which follow from a config.
struct Row {
  Role role;
  TensorKind kind;
  Scope scope;
  std::string_view label;
  std::string_view name;
  // Whether the model, or its layer `layer`, has the tensor.
  bool (*present)(const Config& config, size_t layer);
  Shape (*shape)(const Config& config);
};

bool Always(const Config& /*config*/, size_t /*layer*/) { return true; }
bool WithResiduals(const Config& config, size_t /*layer*/) { return config.attn_res_block != 0; }
bool Kda(const Config& config, size_t layer) { return !config.IsMla(layer); }
bool KdaFullGate(const Config& config, size_t layer) {
  return Kda(config, layer) && config.kda.full_rank_gate;
}
bool KdaLowRankGate(const Config& config, size_t layer) {
  return Kda(config, layer) && !config.kda.full_rank_gate;
}
bool Mla(const Config& config, size_t layer) { return config.IsMla(layer); }
bool MlaWithLora(const Config& config, size_t layer) {
  return Mla(config, layer) && config.mla.q_lora_rank != 0;
}
bool MlaWithoutLora(const Config& config, size_t layer) {
  return Mla(config, layer) && config.mla.q_lora_rank == 0;
}
bool MlaWithGate(const Config& config, size_t layer) {
  return Mla(config, layer) && config.mla.output_gate;
}
bool Dense(const Config& config, size_t layer) { return config.IsDense(layer); }
bool Moe(const Config& config, size_t layer) { return !config.IsDense(layer); }
bool MoeLatent(const Config& config, size_t layer) {
  return Moe(config, layer) && config.moe.latent != 0;
}
bool MoeLatentNorm(const Config& config, size_t layer) {
  return MoeLatent(config, layer) && config.moe.latent_norm;
}
bool MoeShared(const Config& config, size_t layer) {
  return Moe(config, layer) && config.moe.shared_experts != 0;
}

Shape Hidden(const Config& c) { return {1, c.hidden}; }
Shape KdaIn(const Config& c) { return {c.kda.width(), c.hidden}; }
Shape KdaConv(const Config& c) { return {c.kda.width(), c.kda.conv_taps}; }
Shape KdaHeadIn(const Config& c) { return {c.kda.head_dim, c.hidden}; }
Shape KdaHeadOut(const Config& c) { return {c.kda.width(), c.kda.head_dim}; }
Shape MlaValuesIn(const Config& c) { return {c.mla.heads * c.mla.v_head_dim, c.hidden}; }
Shape MlaValuesOut(const Config& c) { return {c.hidden, c.mla.heads * c.mla.v_head_dim}; }
Shape DenseIn(const Config& c) { return {c.dense_intermediate, c.hidden}; }
Shape SharedIn(const Config& c) { return {c.moe.shared_intermediate(), c.hidden}; }
Shape ExpertIn(const Config& c) { return {c.moe.expert_intermediate, c.expert_width()}; }
Shape Vocabulary(const Config& c) { return {c.vocabulary, c.hidden}; }

#define LAYER "model.layers.{L}."
#define ATTN LAYER "self_attn."
#define MOE LAYER "block_sparse_moe."
#define EXPERT MOE "experts.{E}."

constexpr TensorKind kVector = TensorKind::kVector;
constexpr TensorKind kMatrix = TensorKind::kMatrix;
constexpr Scope kOnce = Scope::kModel;
constexpr Scope kEach = Scope::kLayer;

// In the order of Role.
constexpr std::array<Row, kRoleCount> kRows = {{
    {Role::kEmbedding, TensorKind::kEmbedding, kOnce, "embedding", "model.embed_tokens.weight",
     Always, Vocabulary},
    {Role::kOutputResNorm, kVector, kOnce, "output residual norm",
     "model.output_attn_res_norm.weight", WithResiduals, Hidden},
    {Role::kOutputResProj, kVector, kOnce, "output residual proj",
     "model.output_attn_res_proj.weight", WithResiduals, Hidden},
    {Role::kFinalNorm, kVector, kOnce, "final norm", "model.norm.weight", Always, Hidden},
    {Role::kHead, TensorKind::kHead, kOnce, "lm_head", "lm_head.weight", Always, Vocabulary},

    {Role::kAttentionResNorm, kVector, kEach, "attention residual norm",
     LAYER "self_attention_res_norm.weight", WithResiduals, Hidden},
    {Role::kAttentionResProj, kVector, kEach, "attention residual proj",
     LAYER "self_attention_res_proj.weight", WithResiduals, Hidden},
    {Role::kInputNorm, kVector, kEach, "input norm", LAYER "input_layernorm.weight", Always,
     Hidden},
    {Role::kMlpResNorm, kVector, kEach, "mlp residual norm", LAYER "mlp_res_norm.weight",
     WithResiduals, Hidden},
    {Role::kMlpResProj, kVector, kEach, "mlp residual proj", LAYER "mlp_res_proj.weight",
     WithResiduals, Hidden},
    {Role::kPostAttentionNorm, kVector, kEach, "post-attention norm",
     LAYER "post_attention_layernorm.weight", Always, Hidden},

    {Role::kKdaQ, kMatrix, kEach, "KDA q_proj", ATTN "q_proj.weight", Kda, KdaIn},
    {Role::kKdaK, kMatrix, kEach, "KDA k_proj", ATTN "k_proj.weight", Kda, KdaIn},
    {Role::kKdaV, kMatrix, kEach, "KDA v_proj", ATTN "v_proj.weight", Kda, KdaIn},
    {Role::kKdaQConv, kVector, kEach, "KDA q_conv1d", ATTN "q_conv1d.weight", Kda, KdaConv},
    {Role::kKdaKConv, kVector, kEach, "KDA k_conv1d", ATTN "k_conv1d.weight", Kda, KdaConv},
    {Role::kKdaVConv, kVector, kEach, "KDA v_conv1d", ATTN "v_conv1d.weight", Kda, KdaConv},
    {Role::kKdaFA, kMatrix, kEach, "KDA f_a_proj", ATTN "f_a_proj.weight", Kda, KdaHeadIn},
    {Role::kKdaFB, kMatrix, kEach, "KDA f_b_proj", ATTN "f_b_proj.weight", Kda, KdaHeadOut},
    {Role::kKdaDtBias, kVector, kEach, "KDA dt_bias", ATTN "dt_bias", Kda,
     [](const Config& c) {
       return Shape{1, c.kda.width()};
     }},
    {Role::kKdaALog, kVector, kEach, "KDA A_log", ATTN "A_log", Kda,
     [](const Config& c) {
       return Shape{1, c.kda.heads};
     }},
    {Role::kKdaB, kMatrix, kEach, "KDA b_proj", ATTN "b_proj.weight", Kda,
     [](const Config& c) {
       return Shape{c.kda.heads, c.hidden};
     }},
    {Role::kKdaG, kMatrix, kEach, "KDA g_proj", ATTN "g_proj.weight", KdaFullGate, KdaIn},
    {Role::kKdaGA, kMatrix, kEach, "KDA g_a_proj", ATTN "g_a_proj.weight", KdaLowRankGate,
     KdaHeadIn},
    {Role::kKdaGB, kMatrix, kEach, "KDA g_b_proj", ATTN "g_b_proj.weight", KdaLowRankGate,
     KdaHeadOut},
    {Role::kKdaONorm, kVector, kEach, "KDA o_norm", ATTN "o_norm.weight", Kda,
     [](const Config& c) {
       return Shape{1, c.kda.head_dim};
     }},
    {Role::kKdaO, kMatrix, kEach, "KDA o_proj", ATTN "o_proj.weight", Kda,
     [](const Config& c) {
       return Shape{c.hidden, c.kda.width()};
     }},

    {Role::kMlaQA, kMatrix, kEach, "MLA q_a_proj", ATTN "q_a_proj.weight", MlaWithLora,
     [](const Config& c) {
       return Shape{c.mla.q_lora_rank, c.hidden};
     }},
    {Role::kMlaQANorm, kVector, kEach, "MLA q_a norm", ATTN "q_a_layernorm.weight", MlaWithLora,
     [](const Config& c) {
       return Shape{1, c.mla.q_lora_rank};
     }},
    {Role::kMlaQB, kMatrix, kEach, "MLA q_b_proj", ATTN "q_b_proj.weight", MlaWithLora,
     [](const Config& c) {
       return Shape{c.mla.heads * c.mla.qk_head_dim(), c.mla.q_lora_rank};
     }},
    {Role::kMlaQ, kMatrix, kEach, "MLA q_proj", ATTN "q_proj.weight", MlaWithoutLora,
     [](const Config& c) {
       return Shape{c.mla.heads * c.mla.qk_head_dim(), c.hidden};
     }},
    {Role::kMlaKvA, kMatrix, kEach, "MLA kv_a_proj", ATTN "kv_a_proj_with_mqa.weight", Mla,
     [](const Config& c) {
       return Shape{c.mla.cache_width(), c.hidden};
     }},
    {Role::kMlaKvANorm, kVector, kEach, "MLA kv_a norm", ATTN "kv_a_layernorm.weight", Mla,
     [](const Config& c) {
       return Shape{1, c.mla.kv_lora_rank};
     }},
    {Role::kMlaKvB, kMatrix, kEach, "MLA kv_b_proj", ATTN "kv_b_proj.weight", Mla,
     [](const Config& c) {
       return Shape{c.mla.heads * (c.mla.qk_nope_head_dim + c.mla.v_head_dim), c.mla.kv_lora_rank};
     }},
    {Role::kMlaG, kMatrix, kEach, "MLA g_proj", ATTN "g_proj.weight", MlaWithGate, MlaValuesIn},
    {Role::kMlaO, kMatrix, kEach, "MLA o_proj", ATTN "o_proj.weight", Mla, MlaValuesOut},

    {Role::kDenseGate, kMatrix, kEach, "dense gate_proj", LAYER "mlp.gate_proj.weight", Dense,
     DenseIn},
    {Role::kDenseUp, kMatrix, kEach, "dense up_proj", LAYER "mlp.up_proj.weight", Dense, DenseIn},
    {Role::kDenseDown, kMatrix, kEach, "dense down_proj", LAYER "mlp.down_proj.weight", Dense,
     [](const Config& c) {
       return Shape{c.hidden, c.dense_intermediate};
     }},

    {Role::kRouter, kMatrix, kEach, "router", MOE "gate.weight", Moe,
     [](const Config& c) { return Shape{c.moe.experts, c.hidden}; }},
    {Role::kRouterBias, kVector, kEach, "router bias", MOE "gate.e_score_correction_bias", Moe,
     [](const Config& c) {
       return Shape{1, c.moe.experts};
     }},
    {Role::kLatentDown, kMatrix, kEach, "latent down_proj", MOE "routed_expert_down_proj.weight",
     MoeLatent, [](const Config& c) { return Shape{c.moe.latent, c.hidden}; }},
    {Role::kSharedGate, kMatrix, kEach, "shared gate_proj", MOE "shared_experts.gate_proj.weight",
     MoeShared, SharedIn},
    {Role::kSharedUp, kMatrix, kEach, "shared up_proj", MOE "shared_experts.up_proj.weight",
     MoeShared, SharedIn},
    {Role::kSharedDown, kMatrix, kEach, "shared down_proj", MOE "shared_experts.down_proj.weight",
     MoeShared, [](const Config& c) { return Shape{c.hidden, c.moe.shared_intermediate()}; }},
    {Role::kExpertGate, TensorKind::kExpert, kEach, "expert w1", EXPERT "w1.weight", Moe, ExpertIn},
    {Role::kExpertUp, TensorKind::kExpert, kEach, "expert w3", EXPERT "w3.weight", Moe, ExpertIn},
    {Role::kExpertDown, TensorKind::kExpert, kEach, "expert w2", EXPERT "w2.weight", Moe,
     [](const Config& c) {
       return Shape{c.expert_width(), c.moe.expert_intermediate};
     }},
    {Role::kLatentNorm, kVector, kEach, "latent norm", MOE "routed_expert_norm.weight",
     MoeLatentNorm, [](const Config& c) { return Shape{1, c.moe.latent}; }},
    {Role::kLatentUp, kMatrix, kEach, "latent up_proj", MOE "routed_expert_up_proj.weight",
     MoeLatent, [](const Config& c) { return Shape{c.hidden, c.moe.latent}; }},
}};

// Index by role works only while the rows stand in the order of Role.
constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].role) != i) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());

std::string_view PackedName(Role role) {
  if (role == Role::kExpertGate) return EXPERT "w1.weight_packed";
  if (role == Role::kExpertUp) return EXPERT "w3.weight_packed";
  return EXPERT "w2.weight_packed";
}

bool IsConvolution(Role role) {
  return role == Role::kKdaQConv || role == Role::kKdaKConv || role == Role::kKdaVConv;
}

bool IsResidualProjection(Role role) {
  return role == Role::kOutputResProj || role == Role::kAttentionResProj ||
         role == Role::kMlpResProj;
}

TensorSpec MakeSpec(const Row& row, const Config& config) {
  const Shape shape = row.shape(config);
  const bool packed = config.mxfp4_experts && row.kind == TensorKind::kExpert;
  const size_t granule =
      row.role == Role::kMlaKvB ? config.mla.qk_nope_head_dim + config.mla.v_head_dim : 1;
  return {row.role,   row.kind,      packed ? PackedName(row.role) : row.name,
          shape.rows, shape.columns, granule};
}

}  // namespace

size_t DtypeBytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return 4;
    case Dtype::kBf16:
      return 2;
    case Dtype::kU8:
    case Dtype::kCodedBf16:
    case Dtype::kQ8:
    case Dtype::kQ4:
      break;
  }
  return 1;
}

std::string_view DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kU8:
    case Dtype::kCodedBf16:
    case Dtype::kQ8:
    case Dtype::kQ4:
      break;
  }
  return "U8";
}

std::vector<TensorSpec> TensorSpecs(const ModelConfig& config, std::optional<size_t> layer) {
  std::vector<TensorSpec> specs;
  const Scope scope = layer ? Scope::kLayer : Scope::kModel;
  for (const Row& row : kRows) {
    if (row.scope == scope && row.present(config, layer.value_or(0))) {
      specs.push_back(MakeSpec(row, config));
    }
  }
  return specs;
}

std::string_view RoleName(Role role) { return kRows[static_cast<size_t>(role)].label; }

std::vector<uint64_t> DiskShape(const TensorSpec& spec, const ModelConfig& config) {
  if (spec.kind == TensorKind::kExpert && config.mxfp4_experts) {
    return {spec.rows, spec.columns / 2};
  }
  if (IsConvolution(spec.role)) return {spec.rows, 1, spec.columns};
  if (IsResidualProjection(spec.role)) return {1, spec.columns};
  if (spec.role == Role::kKdaALog) return {std::max(config.kda.heads, config.kda.head_dim)};
  if (spec.kind == TensorKind::kVector) return {spec.columns};
  return {spec.rows, spec.columns};
}

std::vector<uint64_t> ScaleShape(const TensorSpec& spec) {
  return {spec.rows, spec.columns / kMxfp4GroupColumns};
}

std::string_view ScaleName(Role expert_role) {
  if (expert_role == Role::kExpertGate) return EXPERT "w1.weight_scale";
  if (expert_role == Role::kExpertUp) return EXPERT "w3.weight_scale";
  return EXPERT "w2.weight_scale";
}

bool ShapeFits(const TensorSpec& spec, const ModelConfig& config, std::span<const uint64_t> shape) {
  if (spec.role == Role::kKdaALog) {
    uint64_t entries = 0;
    if (shape.size() == 1) entries = shape[0];
    if (shape.size() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == 1) entries = shape[2];
    return entries == config.kda.heads ||
           entries == std::max(config.kda.heads, config.kda.head_dim);
  }
  const std::vector<uint64_t> wanted = DiskShape(spec, config);
  return std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end());
}

}  // namespace kimi_k3
