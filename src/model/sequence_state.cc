// What one sequence carries from position to position.
#include "model/sequence_state.h"

#include "base/checked_math.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

// Far beyond any memory, and far enough below 2^64 that a sum over all layers cannot overflow.
constexpr uint64_t kMostCacheBytes = uint64_t{1} << 48;

size_t StateBytes(const KdaConfig& kda, kernels::StateType type) {
  return kda.heads * kda.head_dim * kda.head_dim * kernels::StateNumberBytes(type);
}
size_t TailFloats(const KdaConfig& kda) { return 3 * (kda.conv_taps - 1) * kda.width(); }

size_t CacheLineCeil(size_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

// Of a layer's tail behind its state.
size_t TailOffset(const KdaConfig& kda, kernels::StateType type) {
  return CacheLineCeil(StateBytes(kda, type));
}

size_t KdaLayerBytes(const KdaConfig& kda, kernels::StateType type) {
  return TailOffset(kda, type) + TailFloats(kda) * sizeof(float);
}

// Bytes of one layer's latent cache. The number of positions is whatever the user asked for.
uint64_t CacheBytes(const MlaConfig& mla, size_t max_positions, kernels::CacheType type) {
  const auto bytes = CheckedMul(max_positions, kernels::CacheRowBytes(type, mla.cache_width()));
  if (!bytes || *bytes > kMostCacheBytes) {
    Fail(ErrorKind::kBudget,
         "a context of {} positions is more than any memory holds: ask for a smaller one (-c)",
         max_positions);
  }
  return *bytes;
}

}  // namespace

SequenceState::SequenceState(const ModelConfig& config, size_t max_positions,
                             kernels::CacheType cache_type, size_t most_tentative,
                             kernels::StateType state_type, Home home)
    : config_(&config),
      max_positions_(max_positions),
      cache_type_(cache_type),
      state_type_(state_type),
      layers_(config.layers),
      tentative_(config, most_tentative) {
  if (home == Home::kPlaced) return;
  const size_t kda_bytes = CacheLineCeil(KdaLayerBytes(config.kda, state_type));
  size_t kda_layers = 0;
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    kda_layers += config.IsMla(l) ? 0 : 1;
  }
  own_recurrent_ = PagedArray<std::byte>(kda_layers * kda_bytes);
  std::byte* recurrent = own_recurrent_.data();
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    if (config.IsMla(l)) {
      layers_[l].own_cache =
          AlignedBuffer<std::byte>(CacheBytes(config.mla, max_positions, cache_type));
      Place(l, layers_[l].own_cache.data());
    } else {
      Place(l, recurrent);
      recurrent += kda_bytes;
    }
  }
}

void SequenceState::Place(size_t layer, std::byte* memory) {
  Layer& placed = layers_[layer];
  if (config_->IsMla(layer)) {
    placed.cache = memory;
    return;
  }
  placed.kda_state = {memory, StateBytes(config_->kda, state_type_)};
  placed.conv_tail = {reinterpret_cast<float*>(memory + TailOffset(config_->kda, state_type_)),
                      TailFloats(config_->kda)};
}

void SequenceState::Reset() {
  positions_ = 0;
  tentative_.SetCount(0);
  own_recurrent_.Clear();
}

std::span<std::byte> SequenceState::KdaState(size_t layer) { return layers_[layer].kda_state; }
std::span<float> SequenceState::ConvTail(size_t layer) { return layers_[layer].conv_tail; }

kernels::LatentCacheView SequenceState::Cache(size_t layer) const {
  return {.type = cache_type_,
          .data = layers_[layer].cache,
          .width = config_->mla.cache_width(),
          .latent = config_->mla.kv_lora_rank};
}

void SequenceState::WriteCacheRow(size_t layer, size_t position, std::span<const float> values) {
  const size_t row_bytes = kernels::CacheRowBytes(cache_type_, config_->mla.cache_width());
  kernels::StoreCacheRow(cache_type_, values, layers_[layer].cache + position * row_bytes);
}

std::vector<std::span<std::byte>> SequenceState::Stretches(size_t positions) {
  const size_t row_bytes = kernels::CacheRowBytes(cache_type_, config_->mla.cache_width());
  std::vector<std::span<std::byte>> stretches;
  for (size_t l = config_->first_layer(); l < config_->end_layer(); ++l) {
    if (config_->IsMla(l)) {
      stretches.emplace_back(layers_[l].cache, positions * row_bytes);
    } else {
      stretches.push_back(layers_[l].kda_state);
      stretches.push_back(std::as_writable_bytes(layers_[l].conv_tail));
    }
  }
  return stretches;
}

uint64_t SequenceState::LayerBytes(const ModelConfig& config, size_t layer, size_t max_positions,
                                   kernels::CacheType cache_type, kernels::StateType state_type) {
  if (config.IsMla(layer)) return CacheBytes(config.mla, max_positions, cache_type);
  return KdaLayerBytes(config.kda, state_type);
}

uint64_t SequenceState::Bytes(const ModelConfig& config, size_t max_positions,
                              kernels::CacheType cache_type, size_t most_tentative,
                              kernels::StateType state_type) {
  uint64_t bytes = TentativeRows::Bytes(config, most_tentative);
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    if (config.IsMla(l)) {
      bytes += CacheBytes(config.mla, max_positions, cache_type);
    } else {
      bytes += StateBytes(config.kda, state_type) + TailFloats(config.kda) * sizeof(float);
    }
  }
  return bytes;
}

}  // namespace kimi_k3
