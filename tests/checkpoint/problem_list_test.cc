// Everything that is wrong is told at once, but not without end.
#include "checkpoint/problem_list.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kimi_k3 {
namespace {

TEST(ProblemList, SaysNothingWhereNothingIsWrong) {
  ProblemList problems;
  EXPECT_TRUE(problems.empty());
  EXPECT_NO_THROW(problems.ThrowIfAny());
}

TEST(ProblemList, ListsTheFirstAndCountsTheRest) {
  ProblemList problems(2);
  for (int i = 1; i <= 5; ++i) problems.Add("problem {}", i);
  EXPECT_EQ(problems.count(), 5U);
  EXPECT_EQ(problems.Text(), "problem 1\nproblem 2\nand 3 more problems like these");
}

TEST(ProblemList, ThrowsACheckpointError) {
  ProblemList problems;
  problems.Add("bad");
  try {
    problems.ThrowIfAny();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_STREQ(error.what(), "bad");
  }
}

TEST(Printable, MakesControlCharactersVisible) {
  EXPECT_EQ(Printable("a\x1b[31m\n\xc3\xa9"), "a\\x1b[31m\\x0a\\xc3\\xa9");
}

TEST(Printable, CutsWhatIsTooLong) { EXPECT_EQ(Printable("abcdef", 3), "abc..."); }

}  // namespace
}  // namespace kimi_k3
