// A linear layer: the rows of activations times a streamed matrix.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// Activations of some rows: row r starts at data + r * stride. Does not own.
struct RowsView {
  float* data = nullptr;
  size_t stride = 0;
  size_t count = 0;
  float* Row(size_t r) const { return data + r * stride; }
};

// What every part of the model computes with.
struct Compute {
  const ModelConfig& config;
  WeightStream& weights;
  Parallel& parallel;
};

// Outputs of one matrix product below this many are not worth sharing.
inline constexpr size_t kOutputGrain = 8;

// y[r] = W x[r] for every row; consumes `matrix` from the stream. y.stride >= rows of W.
void Project(const Compute& compute, MatrixId matrix, RowsView x, RowsView y);

}  // namespace kimi_k3
