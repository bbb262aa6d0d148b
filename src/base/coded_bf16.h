// bf16 matrices in fewer bytes without loss: sign and mantissa as they are, exponents as codes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kimi_k3 {

// The weights of a row have few different exponents: a code of three bits names one of the row's
// seven commonest, or says that the exponent is another one, which stands as a byte of its own (an
// escape). Every row of a matrix takes the same bytes and is decoded without the others; rows with
// fewer escapes than the fullest are padded. Any bit pattern comes back as it was.
//
// A row of C columns, P = ceil(C / 8), little-endian:
//   3 * P bytes  bits 0, 1 and 2 of the codes, P bytes each: bit c % 8 of byte c / 8 is column c
//   C bytes      sign (bit 7) and mantissa (bits 0 to 6) of each column
//   E bytes      the escapes in the order of columns, then zeros
//   8 bytes      the exponents of codes 0 to 6, and the number of escapes modulo 256
struct CodedBf16Row {
  static constexpr size_t kTableBytes = 8;
  static constexpr size_t kEscape = 7;  // the code of an escape
  // Decoders have room for a few rows of this many columns.
  static constexpr size_t kMostColumns = size_t{1} << 16;

  size_t columns = 0;
  size_t escapes = 0;  // that a row has room for

  // The row that takes `bytes`; nothing where there is none. Any numbers may come.
  static std::optional<CodedBf16Row> Of(size_t columns, uint64_t bytes);

  size_t plane_bytes() const { return (columns + 7) / 8; }
  size_t mantissas_at() const { return 3 * plane_bytes(); }
  size_t escapes_at() const { return mantissas_at() + columns; }
  size_t table_at() const { return escapes_at() + escapes; }
  size_t bytes() const { return table_at() + kTableBytes; }
};

// The seven commonest exponents of a row, the commonest first, and how many columns have another.
struct CodedBf16Exponents {
  std::array<uint8_t, CodedBf16Row::kEscape> common = {};
  size_t escapes = 0;
};

// row: bf16, of any length.
CodedBf16Exponents CountExponents(std::span<const uint16_t> row);

// Codes one row. REQUIRES: weights.size() == row.columns, CountExponents(weights).escapes <=
// row.escapes, out.size() == row.bytes().
void EncodeBf16Row(const CodedBf16Row& row, std::span<const uint16_t> weights,
                   std::span<std::byte> out);

}  // namespace kimi_k3
