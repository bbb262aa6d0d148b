// Products with streamed matrices.
#include "model/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/model_test_support.h"

namespace kimi_k3 {
namespace {

constexpr size_t kRows = 11;
constexpr size_t kSpare = 3;  // columns of y beyond the matrix's rows
constexpr float kUntouched = 1234.5F;

std::vector<float> ProjectAll(const TestModel& model, const ComputeVariant& variant,
                              MatrixId matrix, std::vector<float> x) {
  FakeWeightStream stream(model, variant.stream);
  RandomCuts parallel(variant.parts, variant.stream.seed);
  const TestTensor& w = model.Get(matrix.role, matrix.layer);
  const size_t count = x.size() / w.columns;
  std::vector<float> y(count * (w.rows + kSpare), kUntouched);
  stream.BeginPassAt(matrix);
  Project({model.config(), stream, parallel}, matrix,
          {.data = x.data(), .stride = w.columns, .count = count},
          {.data = y.data(), .stride = w.rows + kSpare, .count = count});
  return y;
}

TEST(Project, EveryOutputIsTheDotProductAndNothingElseIsWritten) {
  const TestModel model(TestConfig("KimiK3Like"), 2);
  for (const MatrixId matrix :
       {MatrixId{Role::kKdaQ, 0}, MatrixId{Role::kKdaB, 0}, MatrixId{Role::kKdaFB, 1},
        MatrixId{Role::kMlaKvA, 2}, MatrixId{Role::kDenseDown, 0}, MatrixId{Role::kLatentUp, 1}}) {
    const TestTensor& w = model.Get(matrix.role, matrix.layer);
    const std::vector<float> x = RandomRows(kRows, w.columns, 3);
    const std::vector<float> y = ProjectAll(model, {.name = "", .stream = {}}, matrix, x);
    for (size_t r = 0; r < kRows; ++r) {
      Numbers expected;
      for (size_t o = 0; o < w.rows; ++o) {
        double sum = 0;
        for (size_t c = 0; c < w.columns; ++c) {
          sum += static_cast<double>(w.Row(o)[c]) * static_cast<double>(x[r * w.columns + c]);
        }
        expected.push_back(sum);
      }
      const float* row = y.data() + r * (w.rows + kSpare);
      EXPECT_LE(RelativeError(row, expected), 1e-6) << RoleName(matrix.role);
      for (size_t i = 0; i < kSpare; ++i) EXPECT_EQ(row[w.rows + i], kUntouched);
    }
  }
}

TEST(Project, EveryBitIsTheSameForAllTilesCutsAndNumbersOfRows) {
  const TestModel model(TestConfig("KimiK3Like"), 2);
  const MatrixId matrix = {Role::kDenseUp, 0};
  const size_t columns = model.config().hidden;
  const std::vector<float> x = RandomRows(kRows, columns, 4);
  const std::vector<float> expected = ProjectAll(model, {.name = "", .stream = {}}, matrix, x);
  for (const ComputeVariant& variant : ComputeVariants()) {
    EXPECT_EQ(ProjectAll(model, variant, matrix, x), expected) << variant.name;
    std::vector<float> one_by_one;
    for (size_t r = 0; r < kRows; ++r) {
      const auto row = std::span(x).subspan(r * columns, columns);
      const auto y = ProjectAll(model, variant, matrix, {row.begin(), row.end()});
      one_by_one.insert(one_by_one.end(), y.begin(), y.end());
    }
    EXPECT_EQ(one_by_one, expected) << variant.name;
  }
}

}  // namespace
}  // namespace kimi_k3
