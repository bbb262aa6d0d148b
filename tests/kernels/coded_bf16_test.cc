// Coded bf16 weights: the same numbers and products as plain ones, and no harm from damaged bytes.
#include "base/coded_bf16.h"

#include <algorithm>
#include <vector>

#include "base/bf16.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(CodedBf16Test);

// One matrix in both forms.
class TwoForms {
 public:
  TwoForms(size_t rows, size_t columns, std::vector<uint16_t> weights, size_t spare = 0)
      : weights_(std::move(weights)) {
    CodedBf16Row row = {columns, 0};
    for (size_t r = 0; r < rows; ++r) {
      row.escapes = std::max(row.escapes, CountExponents(RowOf(r, columns)).escapes);
    }
    row.escapes = std::min(columns, row.escapes + spare);
    coded_.resize(1 + rows * row.bytes());  // at an odd address
    for (size_t r = 0; r < rows; ++r) {
      EncodeBf16Row(row, RowOf(r, columns),
                    std::span(coded_).subspan(1 + r * row.bytes(), row.bytes()));
    }
    plain_view_ = {WeightType::kBf16, rows, columns,
                   reinterpret_cast<const std::byte*>(weights_.data())};
    coded_view_ = {WeightType::kCodedBf16, rows, columns, coded_.data() + 1, nullptr, row.bytes()};
  }
  const WeightView& plain() const { return plain_view_; }
  const WeightView& coded() const { return coded_view_; }
  std::span<const std::byte> bytes() const { return std::span(coded_).subspan(1); }
  std::span<const uint16_t> weights() const { return weights_; }

 private:
  std::span<const uint16_t> RowOf(size_t r, size_t columns) const {
    return std::span(weights_).subspan(r * columns, columns);
  }
  std::vector<uint16_t> weights_;
  std::vector<std::byte> coded_;
  WeightView plain_view_;
  WeightView coded_view_;
};

// Like trained weights, with an exponent far off now and then.
std::vector<uint16_t> Weights(size_t n, uint32_t seed, uint32_t odd_one_in = 40) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<uint16_t> weights(n);
  for (uint16_t& weight : weights) {
    const float value = normal(generator);
    weight = FloatToBf16(generator() % odd_one_in == 0 ? value * 1e5F : value);
  }
  return weights;
}

std::vector<uint16_t> Decode(const WeightView& w) {
  std::vector<uint16_t> all;
  std::vector<uint16_t> row(w.columns);
  for (size_t r = 0; r < w.rows; ++r) {
    DecodeRow(w, r, row.data());
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

constexpr size_t kColumns[] = {0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 300};

TEST_P(CodedBf16Test, DecodesEveryBitPatternInEveryPlace) {
  std::vector<uint16_t> all;
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    all.push_back(static_cast<uint16_t>(bits * 40503));  // an odd factor: each number once
  }
  for (const size_t columns : {64, 128, 32768}) {
    const TwoForms forms(all.size() / columns, columns, all);
    ASSERT_EQ(Decode(forms.coded()), all) << columns;
  }
  std::sort(all.begin(), all.end());
  const TwoForms sorted(512, 128, all);
  ASSERT_EQ(Decode(sorted.coded()), all);
}

TEST_P(CodedBf16Test, DecodesAnyNumberOfEscapesInRowsOfAnyLength) {
  for (const size_t columns : kColumns) {
    for (const uint32_t odd_one_in : {1, 2, 10, 1000}) {
      for (const size_t spare : {0, 1, 20}) {
        const TwoForms forms(5, columns, Weights(5 * columns, 3, odd_one_in), spare);
        const std::span<const uint16_t> weights = forms.weights();
        ASSERT_EQ(Decode(forms.coded()), std::vector(weights.begin(), weights.end())) << columns;
      }
    }
  }
  std::vector<uint16_t> random(16 * 200);
  std::mt19937 generator(4);
  for (uint16_t& weight : random) weight = static_cast<uint16_t>(generator());
  const TwoForms forms(16, 200, random);
  ASSERT_EQ(Decode(forms.coded()), random);
}

TEST_P(CodedBf16Test, ProductsAreThoseOfPlainWeightsBitForBit) {
  for (const size_t columns : kColumns) {
    for (const size_t outputs : {1, 7, 8, 9, 21}) {
      const TwoForms forms(outputs, columns, Weights(outputs * columns, 5));
      for (const size_t x_rows : {1, 2, 6, 7, 13}) {
        const std::vector<float> x = RandomFloats(x_rows * columns, 6);
        std::vector<float> plain(x_rows * outputs, 1.0F);
        std::vector<float> coded(x_rows * outputs, 2.0F);
        MatMul(forms.plain(), x.data(), columns, x_rows, plain.data(), outputs);
        MatMul(forms.coded(), x.data(), columns, x_rows, coded.data(), outputs);
        ASSERT_EQ(Bits(coded), Bits(plain)) << outputs << " x " << columns << ", " << x_rows;
      }
    }
  }
}

TEST_P(CodedBf16Test, WideAndManyRowsGiveTheSameBitsToo) {
  struct Shape {
    size_t outputs, columns;
  };
  for (const auto [outputs, columns] : {Shape{75, 3584}, Shape{5, 33792}, Shape{3, 65536}}) {
    const TwoForms forms(outputs, columns, Weights(outputs * columns, 7));
    for (const size_t x_rows : {1, 9}) {
      const std::vector<float> x = RandomFloats(x_rows * columns, 8);
      std::vector<float> plain(x_rows * outputs);
      std::vector<float> coded(x_rows * outputs);
      MatMul(forms.plain(), x.data(), columns, x_rows, plain.data(), outputs);
      MatMul(forms.coded(), x.data(), columns, x_rows, coded.data(), outputs);
      ASSERT_EQ(Bits(coded), Bits(plain));
    }
  }
}

TEST_P(CodedBf16Test, TransposedProductsAndRowsAreThoseOfPlainWeights) {
  for (const size_t columns : kColumns) {
    const TwoForms forms(17, columns, Weights(17 * columns, 9));
    const std::vector<float> a = RandomFloats(17, 10);
    std::vector<float> plain(columns, 1.0F);
    std::vector<float> coded(columns, 2.0F);
    TransposedMatVec(forms.plain(), a.data(), plain.data());
    TransposedMatVec(forms.coded(), a.data(), coded.data());
    ASSERT_EQ(Bits(coded), Bits(plain));
    for (size_t r = 0; r < 17; ++r) {
      ExpandRow(forms.plain(), r, plain.data());
      ExpandRow(forms.coded().Rows(r, 1), 0, coded.data());
      ASSERT_EQ(Bits(coded), Bits(plain));
    }
  }
}

TEST_P(CodedBf16Test, ReadsAndWritesNothingBeyondItsOperands) {
  for (const size_t columns : kColumns) {
    const TwoForms forms(9, columns, Weights(9 * columns, 11));
    for (const auto at : {GuardedBytes::At::kEnd, GuardedBytes::At::kBeginning}) {
      GuardedBytes data(forms.bytes(), at);
      WeightView view = forms.coded();
      view.data = data.data();
      const std::vector<float> x = RandomFloats(7 * columns, 12);
      const std::vector<float> blank(7 * 9);
      GuardedBytes guarded_x(AsBytes(x), at);
      GuardedBytes y(AsBytes(blank), at);
      for (const size_t x_rows : {1, 7}) {
        MatMul(view, guarded_x.floats(), columns, x_rows, y.floats(), 9);
      }
      GuardedBytes row(std::span(AsBytes(x)).first(columns * sizeof(float)), at);
      ExpandRow(view, 8, row.floats());
      TransposedMatVec(view, RandomFloats(9, 13).data(), row.floats());
      GuardedBytes decoded(std::span(AsBytes(x)).first(columns * sizeof(uint16_t)), at);
      DecodeRow(view, 8, reinterpret_cast<uint16_t*>(decoded.data()));
      EXPECT_FALSE(FindDamagedRow(view));
    }
  }
}

TEST_P(CodedBf16Test, HostileBytesDoNoHarm) {
  std::mt19937 generator(13);
  for (const size_t columns : {1, 8, 63, 64, 200}) {
    for (const size_t escapes : {size_t{0}, size_t{1}, columns / 2}) {
      const CodedBf16Row row = {columns, std::min(escapes, columns)};
      for (size_t round = 0; round < 50; ++round) {
        std::vector<std::byte> bytes(3 * row.bytes(), std::byte{0xff});
        if (round > 0) {
          for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
        }
        for (const auto at : {GuardedBytes::At::kEnd, GuardedBytes::At::kBeginning}) {
          GuardedBytes data(bytes, at);
          const WeightView view = {
              WeightType::kCodedBf16, 3, columns, data.data(), nullptr, row.bytes()};
          const std::vector<float> x = RandomFloats(columns, 14);
          std::vector<float> y(3);
          MatMul(view, x.data(), columns, 1, y.data(), 3);
          Decode(view);
          FindDamagedRow(view);
        }
      }
    }
  }
}

TEST_P(CodedBf16Test, ARowWithAnotherNumberOfEscapesIsFound) {
  for (const size_t columns : {64, 129}) {
    const TwoForms forms(4, columns, Weights(4 * columns, 15));
    EXPECT_FALSE(FindDamagedRow(forms.coded()));
    const size_t row_bytes = forms.coded().coded_row_bytes;
    const CodedBf16Row row = *CodedBf16Row::Of(columns, row_bytes);
    for (size_t r = 0; r < 4; ++r) {
      for (const size_t c : {size_t{0}, columns - 1}) {
        std::vector<std::byte> bytes(forms.bytes().begin(), forms.bytes().end());
        const std::byte bit = std::byte{1} << (c % 8);
        std::byte* const planes = bytes.data() + r * row_bytes + c / 8;
        const bool was_escape = (planes[0] & planes[row.plane_bytes()] &
                                 planes[2 * row.plane_bytes()] & bit) != std::byte{0};
        for (size_t plane = 0; plane < 3; ++plane) {
          std::byte& byte = planes[plane * row.plane_bytes()];
          byte = was_escape ? byte & ~bit : byte | bit;
        }
        WeightView view = forms.coded();
        view.data = bytes.data();
        EXPECT_EQ(FindDamagedRow(view), r);
      }
    }
  }
}

}  // namespace
}  // namespace kimi_k3::kernels
