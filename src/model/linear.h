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

// Runs body(begin, end) for ranges that cover the outputs of a product of `rows` rows, on all
// threads.
void ForOutputs(Parallel& parallel, size_t outputs, size_t rows,
                FunctionRef<void(size_t, size_t)> body);

// y[r] = W x[r] for every row; consumes `matrix` from the stream. y.stride >= rows of W.
void Project(const Compute& compute, MatrixId matrix, RowsView x, RowsView y);

}  // namespace kimi_k3
