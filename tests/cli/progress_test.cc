// The words of the live line, and its lines where there is no terminal (on one: output_test.cc).
#include "cli/progress.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/output.h"

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

// What is written to standard error, which is no terminal here.
std::string LinesOf(bool quiet, StatusPace pace) {
  testing::internal::CaptureStderr();
  {
    Output output(quiet, pace);
    for (int i = 0; i < 12; ++i) {
      if (output.WantsStatus()) output.Status("step " + std::string(1, static_cast<char>('a' + i)));
    }
    output.ClearStatus();
  }
  return testing::internal::GetCapturedStderr();
}

TEST(StatusLines, StandInAFileNowAndThen) {
  using std::chrono::hours;
  EXPECT_EQ(LinesOf(false, {.first = hours(1), .next = hours(1), .later = hours(1)}), "");
  EXPECT_EQ(LinesOf(false, {.first = hours(0), .next = hours(1), .later = hours(1)}), "step a\n");
  EXPECT_EQ(LinesOf(false, {.first = hours(0), .next = hours(0), .later = hours(1)}),
            "step a\nstep b\nstep c\nstep d\nstep e\nstep f\nstep g\nstep h\nstep i\nstep j\n");
  EXPECT_EQ(LinesOf(true, {.first = hours(0), .next = hours(0), .later = hours(0)}), "");
}

}  // namespace
}  // namespace kimi_k3
