// Products with stored weights: the summation contract, exact decoding, reads within bounds.
#include "kernels/matmul.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

using testing::ElementsAreArray;

KIMI_K3_ON_EVERY_ISA(MatMulTest);

constexpr WeightType kTypes[] = {WeightType::kF32, WeightType::kBf16, WeightType::kMxfp4,
                                 WeightType::kQ8, WeightType::kQ4};

std::vector<size_t> ColumnsToTry(WeightType type) {
  if (type != WeightType::kF32 && type != WeightType::kBf16) return {0, 32, 64, 96, 160, 512};
  return {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 100, 129, 300};
}

// What MatMul must give, bit for bit.
std::vector<float> ContractProduct(const TestWeights& weights, size_t outputs, size_t columns,
                                   const float* x, size_t x_stride, size_t x_rows) {
  std::vector<float> y;
  for (size_t r = 0; r < x_rows; ++r) {
    for (size_t o = 0; o < outputs; ++o) {
      y.push_back(ContractDot(weights.row(o), {x + r * x_stride, columns}));
    }
  }
  return y;
}

TEST_P(MatMulTest, FollowsTheSummationContractForAnyShape) {
  for (const WeightType type : kTypes) {
    for (const size_t columns : ColumnsToTry(type)) {
      for (const size_t outputs : {1, 2, 3, 4, 5, 8, 9, 13}) {
        const TestWeights weights(type, outputs, columns, static_cast<uint32_t>(columns + outputs));
        for (const size_t x_rows : {1, 2, 3, 4, 5, 6, 7, 13}) {
          const size_t x_stride = columns + 3;
          const std::vector<float> x = RandomFloats(x_rows * x_stride, 7, -3.0F, 3.0F);
          std::vector<float> y(x_rows * outputs, 99.0F);
          MatMul(weights.view(), x.data(), x_stride, x_rows, y.data(), outputs);
          ASSERT_EQ(Bits(y),
                    Bits(ContractProduct(weights, outputs, columns, x.data(), x_stride, x_rows)))
              << "type " << static_cast<int>(type) << ", " << outputs << " x " << columns << ", "
              << x_rows << " rows";
        }
      }
    }
  }
}

TEST_P(MatMulTest, AgreesWithDoublePrecision) {
  for (const WeightType type : kTypes) {
    const size_t columns = 1536;
    const TestWeights weights(type, 8, columns, 3);
    const std::vector<float> x = RandomFloats(columns, 4);
    std::vector<float> y(8);
    MatMul(weights.view(), x.data(), columns, 1, y.data(), 8);
    for (size_t o = 0; o < 8; ++o) {
      double exact = 0.0;
      double size = 0.0;
      for (size_t c = 0; c < columns; ++c) {
        const double term = double{weights.row(o)[c]} * double{x[c]};
        exact += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(y[o], exact, 1e-6 * size);
    }
  }
}

TEST_P(MatMulTest, ARowAmongManyEqualsTheRowAlone) {
  for (const WeightType type : kTypes) {
    const size_t columns = 96;
    const size_t outputs = 11;
    const TestWeights weights(type, outputs, columns, 5);
    const std::vector<float> x = RandomFloats(70 * columns, 6);
    std::vector<float> alone(70 * outputs);
    for (size_t r = 0; r < 70; ++r) {
      MatMul(weights.view(), &x[r * columns], columns, 1, &alone[r * outputs], outputs);
    }
    for (size_t x_rows = 1; x_rows <= 70; ++x_rows) {
      std::vector<float> y(x_rows * outputs);
      MatMul(weights.view(), x.data(), columns, x_rows, y.data(), outputs);
      ASSERT_EQ(Bits(y), Bits(std::span(alone).first(x_rows * outputs))) << x_rows << " rows";
    }
  }
}

TEST_P(MatMulTest, WeightsBeyondTheCacheBlockGiveTheSameBits) {
  for (const WeightType type : kTypes) {
    const size_t columns = 3584;
    const size_t outputs = type == WeightType::kF32 || type == WeightType::kBf16 ? 75 : 331;
    const TestWeights weights(type, outputs, columns, 8);
    const std::vector<float> x = RandomFloats(14 * columns, 9);
    std::vector<float> together(14 * outputs);
    MatMul(weights.view(), x.data(), columns, 14, together.data(), outputs);
    std::vector<float> alone(outputs);
    for (size_t r = 0; r < 14; ++r) {
      MatMul(weights.view(), &x[r * columns], columns, 1, alone.data(), outputs);
      ASSERT_EQ(Bits(std::span(together).subspan(r * outputs, outputs)), Bits(alone));
    }
    EXPECT_EQ(Bits(together[0]), Bits(ContractDot(weights.row(0), std::span(x).first(columns))));
  }
}

// Many rows take weights in panels of outputs and columns, and rows in blocks.
TEST_P(MatMulTest, PanelsOfWeightsGiveTheSameBits) {
  for (const WeightType type : kTypes) {
    for (const size_t columns : {736, 768, 1568}) {
      const size_t outputs = 99;
      const TestWeights weights(type, outputs, columns, 16);
      const size_t x_stride = columns + 5;
      const std::vector<float> x = RandomFloats(200 * x_stride, 17);
      std::vector<float> alone(200 * outputs);
      for (size_t r = 0; r < 200; ++r) {
        MatMul(weights.view(), &x[r * x_stride], x_stride, 1, &alone[r * outputs], outputs);
      }
      EXPECT_EQ(Bits(alone[outputs]),
                Bits(ContractDot(weights.row(0), std::span(x).subspan(x_stride, columns))));
      for (const size_t x_rows : {11, 12, 13, 14, 19, 25, 96, 97, 200}) {
        for (const size_t count : {1, 47, 48, 49, 99}) {
          std::vector<float> y(x_rows * outputs, -7.0F);
          MatMul(weights.view().Rows(0, count), x.data(), x_stride, x_rows, y.data(), outputs);
          for (size_t r = 0; r < x_rows; ++r) {
            const std::span<const float> row = std::span(y).subspan(r * outputs, outputs);
            ASSERT_EQ(Bits(row.first(count)), Bits(std::span(alone).subspan(r * outputs, count)))
                << "type " << static_cast<int>(type) << ", " << count << " x " << columns
                << ", row " << r << " of " << x_rows;
            ASSERT_TRUE(
                std::ranges::all_of(row.subspan(count), [](float v) { return v == -7.0F; }));
          }
        }
      }
    }
  }
}

TEST_P(MatMulTest, RowRangesOfAMatrixGiveTheSameBitsAsTheWhole) {
  for (const WeightType type : kTypes) {
    const size_t columns = 64;
    const TestWeights weights(type, 21, columns, 10);
    for (const size_t x_rows : {1, 7, 13}) {
      const std::vector<float> x = RandomFloats(x_rows * columns, 11);
      std::vector<float> whole(x_rows * 21);
      MatMul(weights.view(), x.data(), columns, x_rows, whole.data(), 21);
      for (size_t first = 0; first <= 21; ++first) {
        for (size_t count = 0; first + count <= 21; ++count) {
          std::vector<float> part(x_rows * 21, -7.0F);
          MatMul(weights.view().Rows(first, count), x.data(), columns, x_rows,
                 &part[first == 21 ? 0 : first], 21);
          for (size_t r = 0; r < x_rows; ++r) {
            for (size_t o = 0; o < 21; ++o) {
              const bool inside = o >= first && o < first + count;
              ASSERT_EQ(Bits(part[r * 21 + o]), inside ? Bits(whole[r * 21 + o]) : Bits(-7.0F));
            }
          }
        }
      }
    }
  }
}

TEST_P(MatMulTest, TouchesNothingBeyondItsOperands) {
  for (const WeightType type : kTypes) {
    for (const size_t columns : ColumnsToTry(type)) {
      for (const size_t outputs : {1, 5, 8}) {
        const TestWeights weights(type, outputs, columns, 12);
        for (const auto at : {GuardedBytes::At::kEnd, GuardedBytes::At::kBeginning}) {
          GuardedBytes data(weights.bytes(), at);
          GuardedBytes scales(std::as_bytes(weights.scales()), at);
          WeightView view = weights.view();
          view.data = data.data();
          view.scales = reinterpret_cast<const uint8_t*>(scales.data());
          for (const size_t x_rows : {1, 2, 7, 14}) {
            const std::vector<float> x = RandomFloats(x_rows * columns, 13);
            const std::vector<float> blank(x_rows * outputs);
            GuardedBytes guarded_x(AsBytes(x), at);
            GuardedBytes y(AsBytes(blank), at);
            MatMul(view, guarded_x.floats(), columns, x_rows, y.floats(), outputs);
            ASSERT_EQ(Bits({y.floats(), x_rows * outputs}),
                      Bits(ContractProduct(weights, outputs, columns, x.data(), columns, x_rows)));
          }
        }
      }
    }
  }
}

TEST_P(MatMulTest, ColumnsBeyondTheEndKeepASumOfNegativeZero) {
  // Products too small for f32 leave partial sums of -0; adding +0 would turn them into +0.
  for (size_t columns = 1; columns <= 70; ++columns) {
    const std::vector<float> w(columns, 1e-30F);
    const std::vector<float> x(columns, -1e-30F);
    WeightView view;
    view.type = WeightType::kF32;
    view.rows = 1;
    view.columns = columns;
    view.data = AsBytes(w).data();
    float y = 1.0F;
    MatMul(view, x.data(), columns, 1, &y, 1);
    ASSERT_EQ(Bits(y), Bits(ContractDot(w, x))) << columns;
    ASSERT_EQ(std::signbit(y), columns >= 16);
    ASSERT_EQ(Bits(Dot(w.data(), x.data(), columns)), Bits(y));
  }
}

TEST_P(MatMulTest, NanAndInfinityReachTheirOwnRowAndNoOther) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const WeightType type : kTypes) {
    for (const size_t columns : {32, 96}) {
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        for (size_t c = 0; c < columns; c += 5) {
          const TestWeights weights(type, 9, columns, 14);
          const size_t x_rows = c % 2 == 0 ? 7 : 13;
          std::vector<float> x = RandomFloats(x_rows * columns, 15);
          x[3 * columns + c] = bad;
          std::vector<float> y(x_rows * 9);
          MatMul(weights.view(), x.data(), columns, x_rows, y.data(), 9);
          ASSERT_EQ(Bits(y), Bits(ContractProduct(weights, 9, columns, x.data(), columns, x_rows)));
          for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isfinite(y[i]), i / 9 != 3);
        }
      }
    }
  }
}

TEST_P(MatMulTest, SubnormalWeightsCount) {
  const std::vector<uint16_t> w(40, 0x0001);  // 2^-133
  const std::vector<float> x(40, 1.0F);
  WeightView view;
  view.rows = 1;
  view.columns = 40;
  view.data = std::as_bytes(std::span(w)).data();
  float y = 0.0F;
  MatMul(view, x.data(), 40, 1, &y, 1);
  EXPECT_EQ(y, std::ldexp(40.0F, -133));
}

TEST_P(MatMulTest, NoRowsOrNoOutputsWriteNothing) {
  const TestWeights weights(WeightType::kBf16, 4, 32, 16);
  float y = 5.0F;
  MatMul(weights.view(), nullptr, 0, 0, &y, 4);
  MatMul(weights.view().Rows(2, 0), weights.row(0).data(), 32, 1, &y, 4);
  EXPECT_EQ(y, 5.0F);
}

TEST_P(MatMulTest, DecodesEveryMxfp4ByteUnderEveryScale) {
  // One row per scale, 256 bytes each: every pair of nibbles in every place modulo 16.
  std::vector<std::byte> data;
  std::vector<uint8_t> scales;
  for (size_t scale = 0; scale < 255; ++scale) {
    for (size_t byte = 0; byte < 256; ++byte) data.push_back(static_cast<std::byte>(byte));
    scales.insert(scales.end(), 512 / kMxfp4GroupColumns, static_cast<uint8_t>(scale));
  }
  const WeightView view{WeightType::kMxfp4, 255, 512, data.data(), scales.data()};
  std::vector<float> row(512);
  for (size_t scale = 0; scale < 255; ++scale) {
    ExpandRow(view, scale, row.data());
    for (size_t c = 0; c < 512; ++c) {
      const size_t byte = c / 2;
      const auto nibble = static_cast<uint8_t>(c % 2 == 0 ? byte & 15 : byte >> 4);
      ASSERT_EQ(Bits(row[c]), Bits(Mxfp4Value(nibble, static_cast<uint8_t>(scale))))
          << "byte " << byte << ", scale " << scale;
    }
  }
}

TEST_P(MatMulTest, MultipliesMxfp4UnderExtremeScales) {
  for (const int exponent : {0, 1, 2, 100, 127, 250, 252, 253, 254}) {
    const auto scale = static_cast<uint8_t>(exponent);
    TestWeights weights(WeightType::kMxfp4, 5, 64, scale);
    const std::vector<uint8_t> scales(5 * 2, scale);
    std::vector<float> values;
    for (const std::byte byte : weights.bytes()) {
      values.push_back(Mxfp4Value(static_cast<uint8_t>(byte & std::byte{15}), scale));
      values.push_back(Mxfp4Value(static_cast<uint8_t>(byte >> 4), scale));
    }
    WeightView view = weights.view();
    view.scales = scales.data();
    for (const size_t x_rows : {1, 6}) {
      const std::vector<float> x = RandomFloats(x_rows * 64, 18, -1e-2F, 1e-2F);
      std::vector<float> y(x_rows * 5);
      MatMul(view, x.data(), 64, x_rows, y.data(), 5);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(Bits(y[i]), Bits(ContractDot(std::span(values).subspan(i % 5 * 64, 64),
                                               std::span(x).subspan(i / 5 * 64, 64))));
      }
    }
  }
}

TEST_P(MatMulTest, ExpandsRowsExactly) {
  for (const WeightType type : kTypes) {
    for (const size_t columns : ColumnsToTry(type)) {
      const TestWeights weights(type, 3, columns, 19);
      GuardedBytes data(weights.bytes());
      WeightView view = weights.view();
      view.data = data.data();
      const std::vector<float> blank(columns);
      for (size_t r = 0; r < 3; ++r) {
        GuardedBytes out(AsBytes(blank));
        ExpandRow(view, r, out.floats());
        ASSERT_EQ(Bits({out.floats(), columns}), Bits(weights.row(r)));
      }
    }
  }
}

TEST_P(MatMulTest, TransposedProductIsAChainInAscendingRows) {
  for (const WeightType type : kTypes) {
    for (const size_t columns : ColumnsToTry(type)) {
      for (const size_t rows : {0, 1, 2, 17}) {
        const TestWeights weights(type, rows, columns, 20);
        GuardedBytes data(weights.bytes());
        WeightView view = weights.view();
        view.data = data.data();
        const std::vector<float> a = RandomFloats(rows, 21);
        const std::vector<float> blank(columns, 3.0F);
        GuardedBytes y(AsBytes(blank));
        TransposedMatVec(view, a.data(), y.floats());
        std::vector<float> expected(columns);
        for (size_t o = 0; o < rows; ++o) {
          for (size_t c = 0; c < columns; ++c) {
            expected[c] = std::fma(a[o], weights.row(o)[c], expected[c]);
          }
        }
        ASSERT_EQ(Bits({y.floats(), columns}), Bits(expected));
      }
    }
  }
}

TEST_P(MatMulTest, DotFollowsTheContract) {
  for (size_t n = 0; n < 130; ++n) {
    const std::vector<float> a = RandomFloats(n, 22);
    const std::vector<float> b = RandomFloats(n, 23);
    GuardedBytes guarded_a(AsBytes(a));
    GuardedBytes guarded_b(AsBytes(b));
    ASSERT_EQ(Bits(Dot(guarded_a.floats(), guarded_b.floats(), n)), Bits(ContractDot(a, b)));
  }
}

// Packed bytes, scales and expected values of 64 rows of a published expert.
TEST_P(MatMulTest, DecodesPublishedExpertRows) {
  const std::filesystem::path path = KIMI_K3_SOURCE_DIR "/../shared/data/real_mxfp4.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  const auto bytes = json.at("packed").at("data").get<std::vector<uint8_t>>();
  const auto scales = json.at("scales").at("data").get<std::vector<uint8_t>>();
  const auto expected = json.at("expected").at("data").get<std::vector<double>>();
  const WeightView view{WeightType::kMxfp4, json.at("rows").get<size_t>(),
                        json.at("logical_width").get<size_t>(),
                        std::as_bytes(std::span(bytes)).data(), scales.data()};
  ASSERT_EQ(expected.size(), view.rows * view.columns);
  ASSERT_FALSE(HasNanScale(scales));
  std::vector<float> row(view.columns);
  for (size_t r = 0; r < view.rows; ++r) {
    ExpandRow(view, r, row.data());
    for (size_t c = 0; c < view.columns; ++c) {
      ASSERT_EQ(row[c], static_cast<float>(expected[r * view.columns + c])) << r << ", " << c;
    }
  }
}

TEST(MatMulViewTest, OnlyManyRowsTakeStackForPanels) {
  EXPECT_EQ(MatMulPanelBytes(1), 0U);
  EXPECT_EQ(MatMulPanelBytes(11), 0U);
  EXPECT_GT(MatMulPanelBytes(12), 0U);
  EXPECT_EQ(MatMulPanelBytes(2048), MatMulPanelBytes(12));
  // Threads have at least 2 MiB of stack on the systems that matter.
  EXPECT_LT(MatMulPanelBytes(2048), size_t{1} << 20);
}

TEST(MatMulViewTest, RowBytesFollowTheFormat) {
  EXPECT_EQ(RowBytes(WeightType::kF32, 7), 28U);
  EXPECT_EQ(RowBytes(WeightType::kBf16, 7), 14U);
  EXPECT_EQ(RowBytes(WeightType::kMxfp4, 64), 32U);
  EXPECT_EQ(RowBytes(WeightType::kQ8, 64), 68U);
  EXPECT_EQ(RowBytes(WeightType::kQ4, 64), 36U);
}

TEST(MatMulViewTest, FindsTheNanScaleAnywhere) {
  std::vector<uint8_t> scales(10000, 254);
  EXPECT_FALSE(HasNanScale(scales));
  EXPECT_FALSE(HasNanScale({}));
  for (const size_t place : {0, 1, 63, 64, 4095, 4096, 9998, 9999}) {
    scales[place] = 255;
    EXPECT_TRUE(HasNanScale(scales)) << place;
    scales[place] = 254;
  }
}

}  // namespace
}  // namespace kimi_k3::kernels
