// A linear layer: the rows of activations times a streamed matrix.
#include "model/linear.h"

#include <algorithm>
#include <span>

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

// The part of y that belongs to rows [begin, end) of a run.
void MultiplyRows(std::span<const Tile> run, size_t begin, size_t end, RowsView x, RowsView y) {
  for (const Tile& tile : run) {
    const size_t first = tile.first_row - run.front().first_row;
    const size_t from = std::max(begin, first);
    const size_t to = std::min(end, first + tile.weights.rows);
    if (from >= to) continue;
    kernels::MatMul(tile.weights.Rows(from - first, to - from), x.data, x.stride, x.count,
                    y.data + run.front().first_row + from, y.stride);
  }
}

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
  compute.weights.ForEachRun(matrix, [&](std::span<const Tile> run) {
    const Tile& last = run.back();
    const size_t outputs = last.first_row + last.weights.rows - run.front().first_row;
    ForOutputs(compute.parallel, outputs, x.count,
               [&](size_t begin, size_t end) { MultiplyRows(run, begin, end, x, y); });
  });
}

}  // namespace kimi_k3
