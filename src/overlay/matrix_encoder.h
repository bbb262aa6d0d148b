// Rows of a checkpoint's matrix in the form in which an overlay stores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {

// The most escapes that one of the rows needs (base/coded_bf16.h). rows: bf16, whole rows.
size_t MostEscapes(std::span<const std::byte> rows, size_t columns, Parallel& parallel);

// Takes the rows of one matrix from first to last. What it writes depends on the weights alone.
class MatrixEncoder {
 public:
  // stored: how the checkpoint has it, kBf16 or kF32; for kCodedBf16 kBf16. row_bytes: of a row in
  // the form; for kCodedBf16 with room for MostEscapes.
  MatrixEncoder(Dtype form, Dtype stored, size_t columns, uint64_t row_bytes);

  uint64_t row_bytes() const { return row_bytes_; }

  // The next whole rows; out has room for as many. Returns the first of them (from 0 on) that could
  // not be stored: one with a NaN or an infinity in q8 and q4; one that does not decode to what it
  // was, which would be a fault of this program, in lossless. Then out is of no use.
  std::optional<size_t> Encode(std::span<const std::byte> rows, std::span<std::byte> out,
                               Parallel& parallel);

  // Of all rows so far: root of the sum of squared errors over that of squared weights.
  double error() const;

 private:
  struct RowSums {
    double squared_error = 0;
    double squared_weights = 0;
    bool stored = true;
  };
  // False where the row would not come back as it was.
  bool EncodeCoded(const std::vector<uint16_t>& weights, std::span<std::byte> out) const;
  void EncodeRow(std::span<const std::byte> row, std::span<std::byte> out, RowSums& sums) const;

  Dtype form_;
  Dtype stored_;
  size_t columns_;
  uint64_t row_bytes_;
  std::vector<RowSums> rows_;  // of one call
  double squared_error_ = 0;
  double squared_weights_ = 0;
};

}  // namespace kimi_k3
