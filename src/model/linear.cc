// A linear layer: the rows of activations times a streamed matrix.
#include "model/linear.h"

#include "kernels/matmul.h"

namespace kimi_k3 {
namespace {

// Outputs below this many are not worth sharing.
constexpr size_t kOutputGrain = 8;
// Where many rows share the weights: what still has enough outputs for its activations.
constexpr size_t kManyRows = 12;
constexpr size_t kManyRowsGrain = 24;

}  // namespace

void ForOutputs(Parallel& parallel, size_t outputs, size_t rows,
                FunctionRef<void(size_t, size_t)> body) {
  parallel.ForPieces(outputs, rows >= kManyRows ? kManyRowsGrain : kOutputGrain, body);
}

void Project(const Compute& compute, MatrixId matrix, RowsView x, RowsView y) {
  compute.weights.ForEachTile(matrix, [&](const Tile& tile) {
    ForOutputs(compute.parallel, tile.weights.rows, x.count, [&](size_t begin, size_t end) {
      kernels::MatMul(tile.weights.Rows(begin, end - begin), x.data, x.stride, x.count,
                      y.data + tile.first_row + begin, y.stride);
    });
  });
}

}  // namespace kimi_k3
