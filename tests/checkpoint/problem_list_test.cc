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
  for (int i = 1; i <= 5; ++i) problems.Add("{}: is bad", fmt::format("file {}", i));
  EXPECT_EQ(problems.count(), 5U);
  EXPECT_EQ(problems.Text(), "file 1: is bad\nfile 2: is bad\nand 3 more problems like these");
}

TEST(ProblemList, OneFileDoesNotCrowdOutTheOthers) {
  ProblemList problems(4, 2);
  for (int i = 1; i <= 5; ++i) problems.Add("{}: problem {}", "a", i);
  problems.Add("{}: problem {}", "b", 1);
  problems.Add("{}: problem {}", "c", 1);
  problems.Add("{}: problem {}", "b", 2);
  problems.Add("{}: problem {}", "d", 1);
  EXPECT_EQ(problems.count(), 9U);
  EXPECT_EQ(problems.Text(),
            "a: problem 1\na: problem 2\na: and 3 more problems like these\n"
            "b: problem 1\nb: and 1 more problem like these\n"
            "c: problem 1\nand 1 more problem like these");
}

TEST(ProblemList, WhatIsSaidOfAWholeFileIsAlwaysKept) {
  ProblemList problems(1, 1);
  problems.Add("{}: bad", "a");
  problems.AddAlways("{}: cut", "a");
  problems.AddAlways("{}: cut", "b");
  EXPECT_EQ(problems.Text(), "a: bad\na: cut\nb: cut");
}

TEST(ProblemList, ThrowsACheckpointError) {
  ProblemList problems;
  problems.Add("{}", "bad");
  try {
    problems.ThrowIfAny();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_STREQ(error.what(), "bad");
  }
}

TEST(GroupedDigits, SeparatesThousands) {
  EXPECT_EQ(GroupedDigits(0), "0");
  EXPECT_EQ(GroupedDigits(999), "999");
  EXPECT_EQ(GroupedDigits(1000), "1,000");
  EXPECT_EQ(GroupedDigits(1611797), "1,611,797");
  EXPECT_EQ(GroupedDigits(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Printable, MakesControlCharactersVisible) {
  EXPECT_EQ(Printable("a\x1b[31m\n\xc3\xa9"), "a\\x1b[31m\\x0a\\xc3\\xa9");
}

TEST(Printable, CutsWhatIsTooLong) { EXPECT_EQ(Printable("abcdef", 3), "abc..."); }

}  // namespace
}  // namespace kimi_k3
