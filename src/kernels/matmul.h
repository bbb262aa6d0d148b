// Products of activation rows with weights as they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kimi_k3::kernels {

// How a weight matrix is stored. All stand for exact f32 numbers (docs/arithmetic.md).
enum class WeightType : uint8_t {
  kF32,    // 4 bytes a weight, little-endian
  kBf16,   // 2 bytes a weight: the upper half of an f32
  kMxfp4,  // 4 bits a weight, the low nibble is the even column, and one scale byte per 32 columns
  kCodedBf16,  // bf16 with coded exponents, about 11 bits a weight (base/coded_bf16.h)
  kQ8,         // groups of 32 columns, a scale and 32 bytes each (base/quantized_group.h)
  kQ4          // groups of 32 columns, a scale and 16 bytes each
};

inline constexpr size_t kMxfp4GroupColumns = 32;

// A run of whole rows of a weight matrix, as stored. Does not own; no alignment is promised.
struct WeightView {
  WeightType type = WeightType::kBf16;
  size_t rows = 0;
  size_t columns = 0;               // a multiple of 32 for kMxfp4, kQ8 and kQ4
  const std::byte* data = nullptr;  // [rows, columns] packed, row-major
  const uint8_t* scales = nullptr;  // kMxfp4: E8M0, [rows, columns / 32]; never 255
  size_t coded_row_bytes = 0;       // kCodedBf16: of every row; CodedBf16Row::Of(columns) has it

  // Rows [first, first + count) of this view.
  WeightView Rows(size_t first, size_t count) const;
};

// Bytes that one row of `columns` weights takes in `data`; for kCodedBf16 the least that it may.
size_t RowBytes(WeightType type, size_t columns);

// y[r * y_stride + o] = sum over c of w[o][c] * x[r * x_stride + c], for every row o of `w` and
// 0 <= r < x_rows. The sum follows the summation contract (docs/arithmetic.md): column c is added
// by fused multiply-add to partial sum c mod 16 in ascending order; the 16 partial sums are added
// in a fixed tree. So every bit of y[r][o] depends on w[o] and x[r] alone, not on x_rows, on the
// rows of the view or on the instruction set. x, y: f32, may not overlap. Any sizes, zero included.
// Allocates nothing; callable from many threads at once.
void MatMul(const WeightView& w, const float* x, size_t x_stride, size_t x_rows, float* y,
            size_t y_stride);

// Bytes of its thread's stack that MatMul keeps weights and partial sums in, for so many rows; 0
// where they are few.
size_t MatMulPanelBytes(size_t x_rows);

// y[c] = sum over rows o of a[o] * w[o][c], a chain of fused multiply-adds from zero in ascending
// order of o. y: [columns]. The product with the transposed matrix, used to absorb kv_b_proj into
// the query (docs/model.md section 3).
void TransposedMatVec(const WeightView& w, const float* a, float* y);

// sum of a[i] * b[i] under the summation contract.
float Dot(const float* a, const float* b, size_t n);

// Expands one row to f32: out[columns].
void ExpandRow(const WeightView& w, size_t row, float* out);

// Decodes one row of kCodedBf16 to bf16: out[columns].
void DecodeRow(const WeightView& w, size_t row, uint16_t* out);

// The first row of kCodedBf16 that holds another number of escapes than it says or has room for;
// nothing where every row is in order. Products take damaged rows without harm, but for other
// numbers.
std::optional<size_t> FindDamagedRow(const WeightView& w);

// True where one of the E8M0 scales is 255, which stands for NaN and must be refused.
bool HasNanScale(std::span<const uint8_t> scales);

}  // namespace kimi_k3::kernels
