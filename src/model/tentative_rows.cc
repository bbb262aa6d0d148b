// Positions that a sequence may yet take back: what their recurrence needs to be caught up with.
#include "model/tentative_rows.h"

namespace kimi_k3 {
namespace {

size_t RowFloats(const KdaConfig& kda) { return 6 * kda.width() + kda.heads; }

}  // namespace

TentativeRows::TentativeRows(const ModelConfig& config, size_t most)
    : most_(most), width_(config.kda.width()), heads_(config.kda.heads), layers_(config.layers) {
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    if (!config.IsMla(l)) layers_[l] = AlignedBuffer<float>(most * RowFloats(config.kda));
  }
}

uint64_t TentativeRows::Bytes(const ModelConfig& config, size_t most) {
  uint64_t layers = 0;
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    if (!config.IsMla(l)) ++layers;
  }
  return layers * most * RowFloats(config.kda) * sizeof(float);
}

}  // namespace kimi_k3
