// Where the layers of a sequence's state lie in its part of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/model_config.h"
#include "kernels/delta_rule.h"
#include "kernels/latent_attention.h"

namespace kimi_k3 {

// Layers are kept so many at a time in memory, one that is computed and one that is on its way.
inline constexpr size_t kStateWindows = 2;

// Bytes from the beginning of a layer, at whole blocks.
struct StateStretch {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

// Each layer begins at a block, so that it can be read and written past the page cache.
class StateLayout {
 public:
  // config must outlive the object. Throws as SequenceState::Bytes.
  StateLayout(const ModelConfig& config, size_t context, kernels::CacheType cache_type,
              kernels::StateType state_type);

  uint64_t sequence_bytes() const { return sequence_bytes_; }              // in the file
  uint64_t window_bytes() const { return window_bytes_; }                  // of the largest layer
  uint64_t memory_bytes() const { return kStateWindows * window_bytes_; }  // of one sequence

  uint64_t offset(size_t layer) const { return offsets_[layer]; }  // from the sequence's beginning
  // What must be read before rows are computed behind `positions` positions, and written after
  // `rows` rows.
  StateStretch Before(size_t layer, size_t positions) const;
  StateStretch After(size_t layer, size_t positions, size_t rows) const;

  // Of one sequence in a pass, at the most: with a full cache, and one row.
  uint64_t most_read_bytes() const;
  uint64_t most_written_bytes() const;

 private:
  const ModelConfig* config_;
  size_t context_;
  uint64_t row_bytes_;  // of a latent cache
  std::vector<uint64_t> offsets_;
  uint64_t recurrent_bytes_;  // of a KDA layer
  uint64_t sequence_bytes_ = 0;
  uint64_t window_bytes_ = 0;
};

}  // namespace kimi_k3
