// Rows of a checkpoint's matrix in the form in which an overlay stores them.
#include "overlay/matrix_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/coded_bf16.h"
#include "base/quantized_group.h"
#include "checkpoint/overlay_record.h"
#include "kernels/matmul.h"

namespace kimi_k3 {
namespace {

using Group = std::array<float, kQuantizedGroupColumns>;

// Rows may lie at any address.
std::vector<uint16_t> Bf16RowAt(const std::byte* row, size_t columns) {
  std::vector<uint16_t> weights(columns);
  std::memcpy(weights.data(), row, columns * sizeof(uint16_t));
  return weights;
}

Group LoadGroup(Dtype stored, const std::byte* at) {
  Group group;
  if (stored == Dtype::kF32) {
    std::memcpy(group.data(), at, sizeof group);
    return group;
  }
  std::array<uint16_t, kQuantizedGroupColumns> bits;
  std::memcpy(bits.data(), at, sizeof bits);
  std::ranges::transform(bits, group.begin(), Bf16ToFloat);
  return group;
}

// Writes a group and gives the weights that it stands for.
Group EncodeGroup(Dtype form, const Group& weights, std::byte* out) {
  Group decoded;
  if (form == Dtype::kQ8) {
    const std::span<std::byte, kQ8GroupBytes> bytes(out, kQ8GroupBytes);
    EncodeQ8Group(weights, bytes);
    DecodeQ8Group(bytes, decoded);
  } else {
    const std::span<std::byte, kQ4GroupBytes> bytes(out, kQ4GroupBytes);
    EncodeQ4Group(weights, bytes);
    DecodeQ4Group(bytes, decoded);
  }
  return decoded;
}

}  // namespace

size_t MostEscapes(std::span<const std::byte> rows, size_t columns, Parallel& parallel) {
  const size_t row_bytes = columns * sizeof(uint16_t);
  std::vector<size_t> most(parallel.parts(), 0);
  parallel.For(rows.size() / row_bytes, 1, [&](size_t part, size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const auto weights = Bf16RowAt(rows.data() + row * row_bytes, columns);
      most[part] = std::max(most[part], CountExponents(weights).escapes);
    }
  });
  return std::ranges::max(most);
}

MatrixEncoder::MatrixEncoder(Dtype form, Dtype stored, size_t columns, uint64_t row_bytes)
    : form_(form), stored_(stored), columns_(columns), row_bytes_(row_bytes) {}

std::optional<size_t> MatrixEncoder::Encode(std::span<const std::byte> rows,
                                            std::span<std::byte> out, Parallel& parallel) {
  const size_t stored_bytes = columns_ * DtypeBytes(stored_);
  rows_.assign(rows.size() / stored_bytes, {});
  parallel.For(rows_.size(), 1, [&](size_t, size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      EncodeRow(rows.subspan(row * stored_bytes, stored_bytes),
                out.subspan(row * row_bytes_, row_bytes_), rows_[row]);
    }
  });
  for (const RowSums& row : rows_) {
    squared_error_ += row.squared_error;
    squared_weights_ += row.squared_weights;
  }
  const auto bad = std::ranges::find(rows_, false, &RowSums::stored);
  if (bad == rows_.end()) return std::nullopt;
  return static_cast<size_t>(bad - rows_.begin());
}

void MatrixEncoder::EncodeRow(std::span<const std::byte> row, std::span<std::byte> out,
                              RowSums& sums) const {
  if (form_ == Dtype::kCodedBf16) {
    sums.stored = EncodeCoded(Bf16RowAt(row.data(), columns_), out);
    return;
  }
  const size_t stored_bytes = kQuantizedGroupColumns * DtypeBytes(stored_);
  for (size_t group = 0; group < columns_ / kQuantizedGroupColumns; ++group) {
    const Group weights = LoadGroup(stored_, row.data() + group * stored_bytes);
    if (!std::ranges::all_of(weights, [](float w) { return std::isfinite(w); })) {
      sums.stored = false;
      return;
    }
    const Group decoded =
        EncodeGroup(form_, weights, out.data() + group * QuantizedGroupBytes(form_));
    for (size_t c = 0; c < weights.size(); ++c) {
      const double error = double{weights[c]} - decoded[c];
      sums.squared_error += error * error;
      sums.squared_weights += double{weights[c]} * weights[c];
    }
  }
}

bool MatrixEncoder::EncodeCoded(const std::vector<uint16_t>& weights,
                                std::span<std::byte> out) const {
  EncodeBf16Row(*CodedBf16Row::Of(columns_, row_bytes_), weights, out);
  // What is called lossless is looked at before it is kept.
  std::vector<uint16_t> decoded(columns_);
  kernels::DecodeRow(
      {kernels::WeightType::kCodedBf16, 1, columns_, out.data(), nullptr, row_bytes_}, 0,
      decoded.data());
  return decoded == weights;
}

double MatrixEncoder::error() const {
  return squared_weights_ == 0 ? 0 : std::sqrt(squared_error_ / squared_weights_);
}

}  // namespace kimi_k3
