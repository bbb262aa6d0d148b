// Cutting the rows of a pass into runs.
#include "model/rows.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "model/test_model.h"

namespace kimi_k3 {
namespace {

class RowRunsTest : public testing::Test {
 protected:
  Row Of(SequenceState& sequence) { return {.sequence = &sequence}; }

  ModelConfig config_ = TestConfig("Smallest");
  SequenceState a_{config_, 4}, b_{config_, 4}, c_{config_, 4};
};

TEST_F(RowRunsTest, NoRowsHaveNoRuns) { EXPECT_TRUE(RowRuns({}).empty()); }

TEST_F(RowRunsTest, RowsOfOneSequenceAreOneRun) {
  const std::vector<Row> rows(5, Of(b_));
  const std::vector<RowRun> runs = RowRuns(rows);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].sequence, &b_);
  EXPECT_EQ(runs[0].first, 0U);
  EXPECT_EQ(runs[0].count, 5U);
}

TEST_F(RowRunsTest, ARunBeginsWhereTheSequenceChanges) {
  const std::vector<Row> rows = {Of(c_), Of(a_), Of(a_), Of(a_), Of(b_), Of(b_)};
  const std::vector<RowRun> runs = RowRuns(rows);
  ASSERT_EQ(runs.size(), 3U);
  const SequenceState* const sequences[] = {&c_, &a_, &b_};
  const size_t firsts[] = {0, 1, 4};
  const size_t counts[] = {1, 3, 2};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(runs[i].sequence, sequences[i]);
    EXPECT_EQ(runs[i].first, firsts[i]);
    EXPECT_EQ(runs[i].count, counts[i]);
  }
}

TEST_F(RowRunsTest, ASequenceThatComesBackIsRefused) {
  EXPECT_THROW(RowRuns(std::vector<Row>{Of(a_), Of(b_), Of(a_)}), std::logic_error);
  EXPECT_THROW(RowRuns(std::vector<Row>{Of(a_), Of(b_), Of(c_), Of(c_), Of(b_)}), std::logic_error);
}

}  // namespace
}  // namespace kimi_k3
