// Where the layers of a sequence's state lie in its part of a file.
#include "engine/state_layout.h"

#include <algorithm>

#include "model/sequence_state.h"
#include "residency/reader.h"

namespace kimi_k3 {

StateLayout::StateLayout(const ModelConfig& config, size_t context, kernels::CacheType cache_type,
                         kernels::StateType state_type)
    : config_(&config),
      context_(context),
      row_bytes_(kernels::CacheRowBytes(cache_type, config.mla.cache_width())),
      offsets_(config.layers),
      recurrent_bytes_(0) {
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    const uint64_t bytes =
        BlockCeil(SequenceState::LayerBytes(config, l, context, cache_type, state_type));
    if (!config.IsMla(l)) recurrent_bytes_ = bytes;
    offsets_[l] = sequence_bytes_;
    sequence_bytes_ += bytes;
    window_bytes_ = std::max(window_bytes_, bytes);
  }
}

StateStretch StateLayout::Before(size_t layer, size_t positions) const {
  if (positions == 0) return {};
  if (!config_->IsMla(layer)) return {.begin = 0, .bytes = recurrent_bytes_};
  return {.begin = 0, .bytes = BlockCeil(positions * row_bytes_)};
}

StateStretch StateLayout::After(size_t layer, size_t positions, size_t rows) const {
  if (!config_->IsMla(layer)) return {.begin = 0, .bytes = recurrent_bytes_};
  const uint64_t begin = BlockFloor(positions * row_bytes_);
  return {.begin = begin, .bytes = BlockCeil((positions + rows) * row_bytes_) - begin};
}

uint64_t StateLayout::most_read_bytes() const {
  uint64_t bytes = 0;
  for (size_t l = config_->first_layer(); l < config_->end_layer(); ++l) {
    bytes += Before(l, context_).bytes;
  }
  return bytes;
}

uint64_t StateLayout::most_written_bytes() const {
  uint64_t bytes = 0;
  for (size_t l = config_->first_layer(); l < config_->end_layer(); ++l) {
    bytes += config_->IsMla(l) ? BlockCeil(row_bytes_) + kBlockBytes : recurrent_bytes_;
  }
  return bytes;
}

}  // namespace kimi_k3
