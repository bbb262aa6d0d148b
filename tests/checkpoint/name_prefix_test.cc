// Tests of the prefix that a checkpoint's names have in common.
#include "checkpoint/name_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(NamePrefix, FollowsTheNamesAndElseWhatIsExpected) {
  ProblemList problems;
  NamePrefix with("m");
  EXPECT_EQ(with.Text(""), "");
  EXPECT_EQ(with.Text("language_model."), "language_model.");
  with.Note(true, "language_model.a", problems);
  EXPECT_EQ(with.Text(""), "language_model.");
  NamePrefix without("m");
  without.Note(false, "a", problems);
  EXPECT_EQ(without.Text("language_model."), "");
  EXPECT_TRUE(problems.empty());
}

TEST(NamePrefix, AMixtureIsToldOfOnce) {
  ProblemList problems;
  NamePrefix prefix("m");
  for (const bool prefixed : {true, false, true, false}) {
    prefix.Note(prefixed, prefixed ? "language_model.a" : "b", problems);
  }
  EXPECT_EQ(problems.count(), 1U);
  EXPECT_THAT(problems.Text(), HasSubstr("in front (language_model.a) and some without (b)"));
}

}  // namespace
}  // namespace kimi_k3
