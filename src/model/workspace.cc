// Scratch memory of one pass, sized once from the geometry and handed out layer by layer.
#include "model/workspace.h"

#include <algorithm>
#include <stdexcept>

#include "base/aligned_buffer.h"
#include "kernels/latent_attention.h"

namespace kimi_k3 {
namespace {

constexpr size_t kAlignFloats = kCacheLineBytes / sizeof(float);

size_t Padded(size_t floats) { return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

// What kda.cc, mla.cc, dense_mlp.cc and moe.cc take, in the same order.
size_t KdaFloats(const ModelConfig& config, size_t rows, size_t parts) {
  const KdaConfig& kda = config.kda;
  return 6 * Padded(rows * kda.width()) + Padded(rows * kda.head_dim) + Padded(rows * kda.heads) +
         Padded(3 * (kda.conv_taps - 1) * kda.width()) +
         Padded(parts * kda.head_dim * kda.head_dim);
}

size_t MlaFloats(const ModelConfig& config, size_t rows, size_t parts) {
  const MlaConfig& mla = config.mla;
  return Padded(rows * mla.q_lora_rank) + Padded(rows * mla.heads * mla.qk_head_dim()) +
         Padded(rows * mla.cache_width()) + 2 * Padded(rows * mla.heads * mla.v_head_dim) +
         parts * (Padded(mla.heads * mla.cache_width()) + Padded(mla.heads * mla.kv_lora_rank) +
                  Padded(kernels::LatentAttentionScratch(mla.heads, mla.cache_width())));
}

size_t MoeFloats(const ModelConfig& config, size_t rows) {
  const MoeConfig& moe = config.moe;
  const size_t width = config.expert_width();
  const size_t kept = std::min(rows, kArrivalOrderRows) * moe.experts_per_token;
  return Padded(rows * moe.experts) + Padded(moe.experts) +
         2 * Padded(rows * moe.experts_per_token) + Padded(rows * width) * 2 +
         2 * Padded(rows * moe.shared_intermediate()) + 2 * Padded(rows * width) +
         2 * Padded(rows * moe.expert_intermediate) + Padded(kept * width) +
         Padded(rows * config.hidden);
}

size_t DenseFloats(const ModelConfig& config, size_t rows) {
  return 2 * Padded(rows * config.dense_intermediate);
}

// Whether some layer that is run has this value.
bool Any(const ModelConfig& config, const std::vector<bool>& layers, bool value) {
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    if (layers[l] == value) return true;
  }
  return false;
}

}  // namespace

size_t Workspace::BlockCount(const ModelConfig& config) {
  return config.BlocksBefore(config.end_layer());
}

size_t Workspace::ScratchFloats(const ModelConfig& config, size_t max_rows, size_t parts) {
  size_t floats = Padded(max_rows * config.hidden);  // the final hidden rows
  if (Any(config, config.mla_layers, false))
    floats = std::max(floats, KdaFloats(config, max_rows, parts));
  if (Any(config, config.mla_layers, true))
    floats = std::max(floats, MlaFloats(config, max_rows, parts));
  if (Any(config, config.dense_layers, true))
    floats = std::max(floats, DenseFloats(config, max_rows));
  if (Any(config, config.dense_layers, false))
    floats = std::max(floats, MoeFloats(config, max_rows));
  return floats;
}

Workspace::Workspace(const ModelConfig& config, size_t max_rows, size_t parts)
    : max_rows_(max_rows),
      hidden_(config.hidden),
      residual_(max_rows * hidden_),
      mixed_(max_rows * hidden_),
      normed_(max_rows * hidden_),
      output_(max_rows * hidden_),
      blocks_(BlockCount(config) * max_rows * hidden_),
      scratch_(ScratchFloats(config, max_rows, parts)) {}

float* Workspace::TakeFloats(size_t n) {
  const size_t padded = Padded(n);
  if (padded > scratch_.size() - taken_) throw std::logic_error("workspace: scratch area overrun");
  float* floats = scratch_.data() + taken_;
  taken_ += padded;
  return floats;
}

RowsView Workspace::Take(size_t rows, size_t width) {
  return {.data = TakeFloats(rows * width), .stride = width, .count = rows};
}

uint64_t Workspace::Bytes(const ModelConfig& config, size_t max_rows, size_t parts) {
  const uint64_t rows = (4 + BlockCount(config)) * max_rows * config.hidden;
  return sizeof(float) * (rows + ScratchFloats(config, max_rows, parts));
}

}  // namespace kimi_k3
