// A linear layer: the rows of activations times a streamed matrix.
#include "model/linear.h"

#include "kernels/matmul.h"

namespace kimi_k3 {

void Project(const Compute& compute, MatrixId matrix, RowsView x, RowsView y) {
  compute.weights.ForEachTile(matrix, [&](const Tile& tile) {
    compute.parallel.For(tile.weights.rows, kOutputGrain, [&](size_t, size_t begin, size_t end) {
      kernels::MatMul(tile.weights.Rows(begin, end - begin), x.data, x.stride, x.count,
                      y.data + tile.first_row + begin, y.stride);
    });
  });
}

}  // namespace kimi_k3
