// Positions that a sequence may yet take back: what their recurrence needs to be caught up with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "checkpoint/model_config.h"

namespace kimi_k3 {

// A pass computes tentative rows on copies of the KDA states and leaves here, layer by layer, what
// each row adds to them, so that the states can be advanced by as many rows as are accepted without
// touching the weights again. Owns its memory; move-only.
class TentativeRows {
 public:
  TentativeRows() = default;
  // Room for `most` rows. config must outlive the object.
  TentativeRows(const ModelConfig& config, size_t most);

  size_t most() const { return most_; }
  // Rows of the latest pass that are neither accepted nor forgotten.
  size_t count() const { return count_; }
  void SetCount(size_t count) { count_ = count; }

  // What row `row` adds to KDA layer `layer`: the inputs of the three convolutions (q, k, v), each
  // [width]; the key (of norm 1), the value and the decay that the delta rule took, each [width];
  // and its beta, [heads].
  float* ConvInputs(size_t layer, size_t row) { return Row(layer, row); }
  float* Keys(size_t layer, size_t row) { return Row(layer, row) + 3 * width_; }
  float* Values(size_t layer, size_t row) { return Row(layer, row) + 4 * width_; }
  float* Decays(size_t layer, size_t row) { return Row(layer, row) + 5 * width_; }
  float* Betas(size_t layer, size_t row) { return Row(layer, row) + 6 * width_; }

  // Bytes that room for `most` rows takes.
  static uint64_t Bytes(const ModelConfig& config, size_t most);

 private:
  float* Row(size_t layer, size_t row) {
    return layers_[layer].data() + row * (6 * width_ + heads_);
  }

  size_t most_ = 0;
  size_t count_ = 0;
  size_t width_ = 0;
  size_t heads_ = 0;
  std::vector<AlignedBuffer<float>> layers_;  // empty for layers without a recurrence
};

}  // namespace kimi_k3
