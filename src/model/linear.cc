// A linear layer: the rows of activations times a streamed matrix.
#include "model/linear.h"

#include "kernels/matmul.h"

namespace kimi_k3 {
namespace {

// Outputs below this many are not worth sharing.
constexpr size_t kOutputGrain = 8;
// What many rows need of them, so that their activations are not fetched for too little.
constexpr size_t kManyRows = 64;
constexpr size_t kManyRowsPiece = 24;
// Fewer pieces would not be more even than equal parts.
constexpr size_t kPiecesOfPart = 4;

}  // namespace

void ForOutputs(Parallel& parallel, size_t outputs, size_t rows,
                FunctionRef<void(size_t, size_t)> body) {
  const size_t piece = rows >= kManyRows ? kManyRowsPiece : kOutputGrain;
  if (outputs / piece >= kPiecesOfPart * parallel.parts()) {
    return parallel.ForPieces(outputs, piece, body);
  }
  parallel.For(outputs, kOutputGrain, [&](size_t, size_t begin, size_t end) { body(begin, end); });
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
