// How compute gets its weights: in the order of the walk, tile by tile, never all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/tensor_table.h"
#include "kernels/matmul.h"

namespace kimi_k3 {

// A streamed matrix of the walk.
struct MatrixId {
  Role role;
  size_t layer = 0;  // ignored for kHead
};

// A run of whole rows of one matrix, valid only inside the callback that receives it.
struct Tile {
  size_t first_row = 0;  // of the matrix
  kernels::WeightView weights;
};

// One routed expert, valid only inside the callback that receives it.
struct ExpertWeights {
  kernels::WeightView gate, up, down;
};

// In which order ForEachExpert visits.
enum class ExpertOrder {
  kAscending,  // by expert index
  kArrival     // as the reads land: any order
};

// The weights of one model, for one pass after another. Compute cannot tell what is resident from
// what is streamed. A pass walks the layers from first to last; within a layer the matrices are
// consumed in the order of Role, every one exactly once; then the head, if BeginPass said so.
// Consuming out of order is a programming error and throws std::logic_error. One thread calls; the
// callbacks run on that thread, and may share a tile with others until they return. A failed read
// throws Error(kIo) that names file and offset; an MXFP4 scale that stands for NaN, and
// damage that CheckTile sees, throw Error(kCheckpoint) that names the tensor.
class WeightStream {
 public:
  virtual ~WeightStream() = default;

  // Starts a pass. with_head: the head will be consumed at its end.
  virtual void BeginPass(bool with_head) = 0;

  // Visits the tiles of the next matrix of the walk in ascending row order; together they are the
  // whole matrix, each a multiple of the spec's row_granule long but perhaps the last. A run is one
  // or more tiles that follow one another: what had arrived when it began.
  virtual void ForEachRun(MatrixId matrix, FunctionRef<void(std::span<const Tile>)> visit) = 0;
  // The same, tile by tile.
  void ForEachTile(MatrixId matrix, FunctionRef<void(const Tile&)> visit) {
    ForEachRun(matrix, [&](std::span<const Tile> run) {
      for (const Tile& tile : run) visit(tile);
    });
  }

  // Says which experts of `layer` this pass will use (ascending, distinct) as soon as that is
  // known; their reads start at once.
  virtual void RequestExperts(size_t layer, std::span<const int32_t> experts) = 0;

  // Visits every requested expert of `layer` exactly once. Takes the place of the three expert
  // roles in the walk.
  virtual void ForEachExpert(size_t layer, ExpertOrder order,
                             FunctionRef<void(int32_t, const ExpertWeights&)> visit) = 0;

  // Embedding row of `token` widened to f32; out: [hidden]. token < vocabulary.
  virtual void ReadEmbeddingRow(size_t token, std::span<float> out) = 0;

  // A small vector, widened to f32; called while the model is built, not during a pass.
  virtual std::vector<float> ReadVector(Role role, size_t layer) = 0;

  // Bytes of weights that this stream keeps or may keep in memory of its own at any one time.
  virtual uint64_t resident_bytes() const = 0;
};

}  // namespace kimi_k3
