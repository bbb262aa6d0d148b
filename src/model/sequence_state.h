// What one sequence carries from position to position: KDA states, convolution tails, latent cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "checkpoint/model_config.h"
#include "kernels/delta_rule.h"
#include "kernels/latent_attention.h"
#include "model/tentative_rows.h"
#include "residency/page_buffer.h"

namespace kimi_k3 {

// The recurrent state of one sequence (docs/model.md section 3). Move-only. Its numbers are
// advanced by Transformer::Forward alone.
class SequenceState {
 public:
  // Whether the layers lie in memory of the state's own, or each where Place says.
  enum class Home : uint8_t { kOwn, kPlaced };

  // Room for `max_positions` positions. The first pass is the first to touch the memory of the KDA
  // layers, each head's by the thread that advances it; that of the latent cache as it fills.
  // config must outlive the state. Throws Error(kBudget) for positions that no memory could hold,
  // that or std::bad_alloc where this machine's does not.
  // most_tentative: tentative rows that one pass may have.
  SequenceState(const ModelConfig& config, size_t max_positions,
                kernels::CacheType cache_type = kernels::CacheType::kF32, size_t most_tentative = 0,
                kernels::StateType state_type = kernels::StateType::kF32, Home home = Home::kOwn);

  // Back to the empty sequence. Where layers are placed, their numbers are not touched: whoever
  // places them sees to it that KDA layers of an empty sequence are zeros.
  void Reset();

  // Layer `layer` lies in `memory` from now on, LayerBytes() of it at a cache line's boundary, that
  // holds its numbers by the time it is used. Only with Home::kPlaced.
  void Place(size_t layer, std::byte* memory);

  size_t positions() const { return positions_; }
  size_t max_positions() const { return max_positions_; }
  kernels::CacheType cache_type() const { return cache_type_; }
  kernels::StateType state_type() const { return state_type_; }

  // KDA layer: [heads, head_dim, head_dim] numbers of state_type(), and the last taps - 1 inputs of
  // the three convolutions, the oldest first, [3 (q, k, v), taps - 1, heads * head_dim].
  std::span<std::byte> KdaState(size_t layer);
  std::span<float> ConvTail(size_t layer);

  // MLA layer: rows 0 .. max_positions - 1.
  kernels::LatentCacheView Cache(size_t layer) const;
  // Stores row `position` of the cache; values: [cache_width]
  // (kernels::StoreCacheRow).
  void WriteCacheRow(size_t layer, size_t position, std::span<const float> values);

  // Rows of the latest pass that are not positions yet: Transformer::Accept makes them so, the next
  // pass forgets them.
  TentativeRows& tentative() { return tentative_; }
  const TentativeRows& tentative() const { return tentative_; }

  // Counts `n` more positions as done.
  void Advance(size_t n) { positions_ += n; }

  // All that the state holds after `positions` positions, as stretches of memory in a fixed order:
  // of each layer the KDA state and then the tail, or the cache rows. positions <= max_positions().
  std::vector<std::span<std::byte>> Stretches(size_t positions);
  // The stretches have been filled with a state after `positions` positions.
  void Restore(size_t positions) { positions_ = positions; }

  // Bytes of one layer with a full cache, as Place wants them: the KDA state and, at the next cache
  // line, the tail; or the rows of the cache. Throws Error(kBudget) as above.
  static uint64_t LayerBytes(const ModelConfig& config, size_t layer, size_t max_positions,
                             kernels::CacheType cache_type,
                             kernels::StateType state_type = kernels::StateType::kF32);

  // Bytes that a state of this size takes when its cache is full; throws Error(kBudget) as above.
  static uint64_t Bytes(const ModelConfig& config, size_t max_positions,
                        kernels::CacheType cache_type, size_t most_tentative = 0,
                        kernels::StateType state_type = kernels::StateType::kF32);

 private:
  struct Layer {
    AlignedBuffer<std::byte> own_cache;  // of an MLA layer; empty where it is placed
    std::span<std::byte> kda_state;
    std::span<float> conv_tail;
    std::byte* cache = nullptr;
  };
  const ModelConfig* config_;
  size_t max_positions_;
  kernels::CacheType cache_type_;
  kernels::StateType state_type_;
  size_t positions_ = 0;
  PagedArray<std::byte> own_recurrent_;  // of all KDA layers; empty where they are placed
  std::vector<Layer> layers_;
  TentativeRows tentative_;
};

}  // namespace kimi_k3
