// Coded exponents: the layout by the byte, what the encoder chooses, sizes from untrusted files.
#include "base/coded_bf16.h"

#include <gmock/gmock.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

namespace kimi_k3 {
namespace {

using testing::ElementsAre;

// Column by column, as the header describes the layout.
std::vector<uint16_t> DecodePlainly(const CodedBf16Row& row, const std::vector<std::byte>& bytes) {
  const auto at = [&](size_t i) { return std::to_integer<unsigned>(bytes.at(i)); };
  std::vector<uint16_t> weights;
  size_t escape = row.escapes_at();
  for (size_t c = 0; c < row.columns; ++c) {
    unsigned code = 0;
    for (size_t bit = 0; bit < 3; ++bit) {
      code |= ((at(bit * row.plane_bytes() + c / 8) >> (c % 8)) & 1) << bit;
    }
    const unsigned exponent = code == 7 ? at(escape++) : at(row.table_at() + code);
    const unsigned rest = at(row.mantissas_at() + c);
    weights.push_back(static_cast<uint16_t>((rest & 0x80) << 8 | exponent << 7 | (rest & 0x7f)));
  }
  return weights;
}

std::vector<std::byte> Encode(const CodedBf16Row& row, const std::vector<uint16_t>& weights) {
  std::vector<std::byte> bytes(row.bytes(), std::byte{0xee});
  EncodeBf16Row(row, weights, bytes);
  return bytes;
}

void ExpectComesBack(const std::vector<uint16_t>& weights) {
  const size_t escapes = CountExponents(weights).escapes;
  for (const size_t room : {escapes, escapes + 3}) {
    const CodedBf16Row row = {weights.size(), room};
    ASSERT_EQ(DecodePlainly(row, Encode(row, weights)), weights);
  }
}

TEST(CodedBf16, EveryBitPatternComesBack) {
  for (unsigned high = 0; high < 256; ++high) {
    std::vector<uint16_t> weights;
    for (unsigned low = 0; low < 256; ++low) {
      weights.push_back(static_cast<uint16_t>(high << 8 | low));
    }
    ExpectComesBack(weights);
  }
  std::vector<uint16_t> all;
  for (unsigned bits = 0; bits <= 0xffff; ++bits)
    all.push_back(static_cast<uint16_t>(bits * 40503));
  ExpectComesBack(all);
}

TEST(CodedBf16, RowsOfAnyLengthComeBack) {
  std::mt19937 generator(1);
  for (size_t columns = 0; columns < 300; ++columns) {
    std::vector<uint16_t> weights;
    for (size_t c = 0; c < columns; ++c) weights.push_back(static_cast<uint16_t>(generator()));
    ExpectComesBack(weights);
    for (uint16_t& weight : weights) weight &= 0x83ff;
    ExpectComesBack(weights);
  }
}

TEST(CodedBf16, BytesLieWhereTheLayoutSaysTheyLie) {
  // Exponents 127 (twice), 1 .. 6 and the escape 9; 1.0 is 0x3f80.
  const std::vector<uint16_t> weights = {0x0080, 0x3f80, 0x0100, 0x0180, 0x8203,
                                         0x0280, 0x04ff, 0xbf81, 0x0300};
  const CodedBf16Row row = {9, 2};
  EXPECT_EQ(row.bytes(), 3 * 2 + 9 + 2 + 8);
  std::vector<unsigned> numbers;
  for (const std::byte byte : Encode(row, weights))
    numbers.push_back(std::to_integer<unsigned>(byte));
  // Codes 1 0 2 3 4 5 7 0 6, the commonest exponent first, then the smaller.
  EXPECT_THAT(numbers, ElementsAre(0b01101001, 0, 0b01001100, 1, 0b01110000, 1,  // planes
                                   0, 0, 0, 0, 0x83, 0, 0x7f, 0x81, 0,           // signs, mantissas
                                   9, 0,                                         // escapes
                                   127, 1, 2, 3, 4, 5, 6, 1));
}

TEST(CodedBf16, TheCommonestExponentsGetCodes) {
  std::vector<uint16_t> weights;
  for (unsigned exponent = 0; exponent < 20; ++exponent) {
    for (unsigned i = 0; i <= exponent; ++i)
      weights.push_back(static_cast<uint16_t>(exponent << 7));
  }
  const CodedBf16Exponents exponents = CountExponents(weights);
  EXPECT_THAT(exponents.common, ElementsAre(19, 18, 17, 16, 15, 14, 13));
  EXPECT_EQ(exponents.escapes, 13 * 14 / 2);
}

TEST(CodedBf16, NormallyDistributedWeightsTakeElevenBits) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<uint16_t> weights;
  for (size_t c = 0; c < 7168; ++c) {
    weights.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(generator)) >> 16));
  }
  const CodedBf16Row row = {weights.size(), CountExponents(weights).escapes};
  EXPECT_LT(static_cast<double>(row.bytes()), 0.705 * 2 * 7168);
}

TEST(CodedBf16, OnlySizesThatARowCanHaveAreTaken) {
  for (const size_t columns : {0, 1, 8, 9, 200}) {
    const size_t least = CodedBf16Row{columns, 0}.bytes();
    EXPECT_FALSE(CodedBf16Row::Of(columns, least - 1));
    for (size_t escapes = 0; escapes <= columns; ++escapes) {
      const auto row = CodedBf16Row::Of(columns, least + escapes);
      ASSERT_TRUE(row);
      EXPECT_EQ(row->escapes, escapes);
      EXPECT_EQ(row->bytes(), least + escapes);
    }
    EXPECT_FALSE(CodedBf16Row::Of(columns, least + columns + 1));
  }
  EXPECT_FALSE(CodedBf16Row::Of(8, std::numeric_limits<uint64_t>::max()));
  EXPECT_FALSE(CodedBf16Row::Of(CodedBf16Row::kMostColumns + 1, 200000));
  EXPECT_FALSE(CodedBf16Row::Of(std::numeric_limits<size_t>::max(), 8));
}

}  // namespace
}  // namespace kimi_k3
