// The order in which one pass over the model uses its matrices, how they are cut into tiles, and
// the check that compute keeps to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// What a step of the walk is.
enum class StepKind : uint8_t { kMatrix, kExperts, kHead };

// One step: a streamed matrix, the routed experts of a MoE layer, or the head.
struct PassStep {
  StepKind kind = StepKind::kMatrix;
  Role role = Role::kHead;  // kExpertGate for kExperts
  size_t layer = 0;         // for kHead the one after the last that is run
  // The matrix as it is stored; unused for kExperts.
  TensorLocation location;
  size_t row_granule = 1;
  // Rows of every tile but perhaps the last; a multiple of row_granule.
  size_t tile_rows = 0;

  uint64_t row_bytes() const { return location.range.bytes / location.rows; }
  size_t tiles() const { return (location.rows + tile_rows - 1) / tile_rows; }
  size_t FirstRow(size_t tile) const { return tile * tile_rows; }
  size_t RowsOf(size_t tile) const;
  // Where tile `tile` lies on disk.
  ByteRange RangeOf(size_t tile) const;
  // Rows [first, first + count), stored from `data` on.
  Tile ViewRows(size_t first, size_t count, const std::byte* data) const;
  Tile View(size_t tile, const std::byte* data) const {
    return ViewRows(FirstRow(tile), RowsOf(tile), data);
  }
};

// How a stored number type multiplies. Throws Error(kCheckpoint) for kU8, which only experts use.
kernels::WeightType WeightTypeOf(Dtype dtype);

// The walk of one model, or of the part of it that is run. Immutable; safe to use from many
// threads.
class PassSchedule {
 public:
  // Bytes that tiles aim for; a matrix is cut into about equal tiles of at most this size, but a
  // tile is never less than one row granule.
  static constexpr uint64_t kDefaultTileBytes = uint64_t{2} << 20;

  explicit PassSchedule(const Checkpoint& checkpoint, uint64_t tile_bytes = kDefaultTileBytes);

  // In the order of the walk; the head is last.
  std::span<const PassStep> steps() const { return steps_; }
  size_t layers() const { return layers_; }  // that are run
  uint64_t largest_tile_bytes() const { return largest_tile_bytes_; }
  // Stored bytes of every streamed matrix of the layers.
  uint64_t trunk_bytes() const { return trunk_bytes_; }
  uint64_t head_bytes() const { return head_bytes_; }
  // Stored bytes of one routed expert; 0 without any.
  uint64_t expert_bytes() const { return expert_bytes_; }

 private:
  void Append(PassStep step, uint64_t tile_bytes);

  std::vector<PassStep> steps_;
  size_t layers_ = 0;
  uint64_t largest_tile_bytes_ = 0;
  uint64_t trunk_bytes_ = 0;
  uint64_t head_bytes_ = 0;
  uint64_t expert_bytes_ = 0;
};

// Where compute is in the walk. Every Expect throws std::logic_error that names what came and what
// was due, and then leaves the position as it was.
class Walk {
 public:
  // `schedule` must outlive the walk.
  explicit Walk(const PassSchedule& schedule) : schedule_(&schedule) {}

  // From the first step; a pass that was left half-way is given up.
  void Begin(bool with_head);
  bool begun() const { return begun_; }
  // The pass has come to its end: nothing more is due.
  bool finished() const { return begun_ && Due() == nullptr; }
  // Nothing more can be asked for before the next Begin.
  void GiveUp() { begun_ = false; }
  bool with_head() const { return with_head_; }
  // Index of the step that is due; steps().size() when the pass is over.
  size_t next() const { return next_; }

  // The matrix is the step that is due. Returns its index; Advance says that it is done.
  size_t ExpectMatrix(MatrixId matrix) const;
  // `layer` is the layer that is due and its experts were not requested yet; notes the request.
  // The ids must be ascending, distinct and below `expert_count`.
  void ExpectRequest(size_t layer, std::span<const int32_t> experts, size_t expert_count);
  // The experts of `layer` are due and were requested.
  size_t ExpectExperts(size_t layer) const;
  void Advance();

 private:
  const PassStep* Due() const;

  const PassSchedule* schedule_;
  size_t next_ = 0;
  bool begun_ = false;
  bool with_head_ = false;
  bool requested_ = false;
};

}  // namespace kimi_k3
