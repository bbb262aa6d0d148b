// The one table of what a tensor is: name, role, shape, dtypes, kind, and when a model has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"

namespace kimi_k3 {

// Columns of an MXFP4 matrix that share a scale.
inline constexpr size_t kMxfp4GroupColumns = 32;

// How numbers are stored. The last three are forms of whole rows, which overlays alone have:
// base/coded_bf16.h, base/quantized_group.h.
enum class Dtype : uint8_t { kF32, kBf16, kU8, kCodedBf16, kQ8, kQ4 };
// Bytes of a number. REQUIRES: none of the last three.
size_t DtypeBytes(Dtype dtype);
// As in safetensors headers: "F32", "BF16", "U8"; the last three are "U8" there too.
std::string_view DtypeName(Dtype dtype);

// What a tensor does in the model. Within a layer the order is the order in which a pass uses the
// streamed matrices (docs/architecture.md).
enum class Role : uint8_t {
  // Once per model.
  kEmbedding,
  kOutputResNorm,
  kOutputResProj,
  kFinalNorm,
  kHead,
  // Every layer.
  kAttentionResNorm,
  kAttentionResProj,
  kInputNorm,
  kMlpResNorm,
  kMlpResProj,
  kPostAttentionNorm,
  // KDA.
  kKdaQ,
  kKdaK,
  kKdaV,
  kKdaQConv,
  kKdaKConv,
  kKdaVConv,
  kKdaFA,
  kKdaFB,
  kKdaDtBias,
  kKdaALog,
  kKdaB,
  kKdaG,   // full-rank output gate
  kKdaGA,  // low-rank output gate
  kKdaGB,
  kKdaONorm,
  kKdaO,
  // MLA.
  kMlaQA,
  kMlaQANorm,
  kMlaQB,
  kMlaQ,  // without q_lora
  kMlaKvA,
  kMlaKvANorm,
  kMlaKvB,
  kMlaG,
  kMlaO,
  // Dense feed-forward.
  kDenseGate,
  kDenseUp,
  kDenseDown,
  // Mixture of experts.
  kRouter,
  kRouterBias,
  kLatentDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kExpertGate,  // w1
  kExpertUp,    // w3
  kExpertDown,  // w2
  kLatentNorm,
  kLatentUp,
};
inline constexpr size_t kRoleCount = static_cast<size_t>(Role::kLatentUp) + 1;

// How a tensor is kept and read.
enum class TensorKind : uint8_t {
  kVector,     // small; loaded once, widened to f32
  kMatrix,     // streamed, tile by tile
  kExpert,     // streamed, whole expert by whole expert
  kEmbedding,  // read row by row
  kHead        // streamed, only where logits are wanted
};

// One role in one model: what must be on disk.
struct TensorSpec {
  Role role;
  TensorKind kind;
  std::string_view
      name;  // with {L} for the layer and {E} for the expert, without the model's prefix
  // Shape as a matrix [rows, columns]; one-dimensional tensors have rows = 1, short convolutions
  // [width, taps]. MXFP4: logical (unpacked) columns. A_log: [1, heads], whatever pads it on disk.
  size_t rows;
  size_t columns;
  // A tile holds whole multiples of this many rows (one head of kv_b_proj), else 1.
  size_t row_granule;
};

// The roles of layer `layer` (or, with nothing, of the model as a whole) that `config` demands, in
// the order of Role. Experts appear once, standing for all of them.
std::vector<TensorSpec> TensorSpecs(const ModelConfig& config, std::optional<size_t> layer);

std::string_view RoleName(Role role);  // "KDA q_proj", for tables and messages

// The shape that a writer gives the tensor on disk: [width, 1, taps] for a short convolution,
// [head_dim] for A_log where that is at least heads, packed columns for MXFP4 weights.
std::vector<uint64_t> DiskShape(const TensorSpec& spec, const ModelConfig& config);

// Shape on disk of the scales beside an MXFP4 expert matrix.
std::vector<uint64_t> ScaleShape(const TensorSpec& spec);

// Name on disk (without the model's prefix) of the scales beside an MXFP4 expert matrix.
std::string_view ScaleName(Role expert_role);

// Whether a tensor of this shape on disk can stand for `spec`: DiskShape, and for A_log besides
// [heads] and each of the two as [1, 1, n, 1].
bool ShapeFits(const TensorSpec& spec, const ModelConfig& config, std::span<const uint64_t> shape);

inline bool IsExpertRole(Role role) {
  return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertDown;
}

}  // namespace kimi_k3
