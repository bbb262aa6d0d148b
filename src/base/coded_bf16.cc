// bf16 matrices in fewer bytes without loss: layout and encoder.
#include "base/coded_bf16.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kimi_k3 {
namespace {

uint8_t ExponentOf(uint16_t weight) { return static_cast<uint8_t>(weight >> 7); }

uint8_t SignAndMantissaOf(uint16_t weight) {
  return static_cast<uint8_t>(((weight >> 8) & 0x80) | (weight & 0x7f));
}

}  // namespace

std::optional<CodedBf16Row> CodedBf16Row::Of(size_t columns, uint64_t bytes) {
  if (columns > kMostColumns) return std::nullopt;
  CodedBf16Row row = {columns, 0};
  if (bytes < row.bytes() || bytes > row.bytes() + columns) return std::nullopt;
  row.escapes = static_cast<size_t>(bytes - row.bytes());
  return row;
}

CodedBf16Exponents CountExponents(std::span<const uint16_t> row) {
  std::array<uint32_t, 256> counts = {};
  for (const uint16_t weight : row) ++counts[ExponentOf(weight)];
  std::array<uint8_t, 256> order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  CodedBf16Exponents exponents;
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(exponents.common.size());
  std::partial_sort(order.begin(), end, order.end(), [&](uint8_t a, uint8_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  std::copy(order.begin(), end, exponents.common.begin());
  exponents.escapes = row.size();
  for (const uint8_t exponent : exponents.common) exponents.escapes -= counts[exponent];
  return exponents;
}

void EncodeBf16Row(const CodedBf16Row& row, std::span<const uint16_t> weights,
                   std::span<std::byte> out) {
  const CodedBf16Exponents exponents = CountExponents(weights);
  std::array<uint8_t, 256> codes;
  codes.fill(CodedBf16Row::kEscape);
  for (size_t code = 0; code < exponents.common.size(); ++code) {
    codes[exponents.common[code]] = static_cast<uint8_t>(code);
  }
  std::fill(out.begin(), out.end(), std::byte{0});
  std::byte* escape = out.data() + row.escapes_at();
  for (size_t first = 0; first < weights.size(); first += 8) {
    const auto eight = weights.subspan(first, std::min<size_t>(8, weights.size() - first));
    std::array<unsigned, 3> planes = {};
    for (size_t c = 0; c < eight.size(); ++c) {
      const uint8_t exponent = ExponentOf(eight[c]);
      const unsigned code = codes[exponent];
      for (size_t bit = 0; bit < planes.size(); ++bit) planes[bit] |= ((code >> bit) & 1) << c;
      out[row.mantissas_at() + first + c] = std::byte{SignAndMantissaOf(eight[c])};
      if (code == CodedBf16Row::kEscape) *escape++ = std::byte{exponent};
    }
    for (size_t bit = 0; bit < planes.size(); ++bit) {
      out[bit * row.plane_bytes() + first / 8] = static_cast<std::byte>(planes[bit]);
    }
  }
  std::byte* table = out.data() + row.table_at();
  std::memcpy(table, exponents.common.data(), exponents.common.size());
  table[exponents.common.size()] = static_cast<std::byte>(exponents.escapes);
}

}  // namespace kimi_k3
