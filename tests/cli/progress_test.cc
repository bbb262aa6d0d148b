// The words of the live line (the line itself: output_test.cc).
#include "cli/progress.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(FormatDuration, GivesTwoUnitsAtTheMostAndNeverSixtyOfTheSmaller) {
  EXPECT_EQ(FormatDuration(0), "0 s");
  EXPECT_EQ(FormatDuration(45.4), "45 s");
  EXPECT_EQ(FormatDuration(89.4), "89 s");
  EXPECT_EQ(FormatDuration(91), "2 min");
  EXPECT_EQ(FormatDuration(3600), "60 min");
  EXPECT_EQ(FormatDuration(7199), "2 h 0 min");
  EXPECT_EQ(FormatDuration(7800), "2 h 10 min");
  EXPECT_EQ(FormatDuration(6 * 86400.0), "6 days");
}

}  // namespace
}  // namespace kimi_k3
