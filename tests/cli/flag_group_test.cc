// Values of flags, read strictly.
#include "cli/flag_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

TEST(ParseCount, TakesDecimalDigitsWithinBounds) {
  EXPECT_EQ(ParseCount("-n", "0", 0, 10), 0U);
  EXPECT_EQ(ParseCount("-n", "010", 0, 10), 10U) << "no octal";
  EXPECT_EQ(ParseCount("-n", "18446744073709551615", 0, UINT64_MAX), UINT64_MAX);
}

TEST(ParseCount, RefusesEverythingElseInWords) {
  for (const char* text :
       {"", " 1", "1 ", "+1", "1.0", "1e3", "0x1", "--1", "-", "1k", "\xd9\xa1"}) {
    EXPECT_THAT(MessageOf([&] { ParseCount("-n", text, 0, 9); }), HasSubstr("not a whole number"));
  }
  EXPECT_EQ(MessageOf([] { ParseCount("-n", "-1", 0, 9); }),
            "-n: -1 is below 0, the least it can be");
  EXPECT_EQ(MessageOf([] { ParseCount("-n", "1", 2, 9); }),
            "-n: 1 is below 2, the least it can be");
  EXPECT_EQ(MessageOf([] { ParseCount("-n", "10", 2, 9); }),
            "-n: 10 is above 9, the most it can be");
  EXPECT_THAT(MessageOf([] { ParseCount("-n", "99999999999999999999", 2, UINT64_MAX); }),
              HasSubstr("above"));
  EXPECT_THAT(MessageOf([] { ParseCount("-n", "-99999999999999999999", 2, 9); }),
              HasSubstr("below"));
}

TEST(ParseNumber, TakesFiniteDecimalNumbers) {
  EXPECT_EQ(ParseNumber("--temp", "0.5"), 0.5F);
  EXPECT_EQ(ParseNumber("--temp", "-2"), -2.0F);
  EXPECT_EQ(ParseNumber("--temp", "1e-9"), 1e-9F);
  for (const char* text : {"", "nan", "inf", "-inf", "1e99", "0.5x", " 1", "0,5", "0x1p3"}) {
    EXPECT_THAT(MessageOf([&] { ParseNumber("--temp", text); }), HasSubstr("--temp")) << text;
  }
}

struct Flags {
  Flags() {
    FlagGroup group(app, "Flags");
    group.Switch("--loud", loud, "");
    group.Text("-p,--prompt", "TEXT", text, "");
    group.Texts("--stop", "TEXT", texts, "");
    group.Count("-n", "N", count, "", 1, 9);
    group.Number("--temp", "T", number, "");
    group.Choice<int>("--kind", {{"one", 1}, {"two", 2}}, choice, "");
  }
  CLI::App app;
  bool loud = false;
  std::optional<std::string> text;
  std::vector<std::string> texts;
  uint64_t count = 5;
  float number = 0.25F;
  int choice = 0;
};

TEST(FlagGroup, ReadsEachKind) {
  Flags flags;
  flags.app.parse(
      std::vector<std::string>{"two", "--kind", "3", "-n", "x", "-p", "1.5", "--temp", "--loud"});
  EXPECT_TRUE(flags.loud);
  EXPECT_EQ(flags.text, "x");
  EXPECT_EQ(flags.count, 3U);
  EXPECT_EQ(flags.number, 1.5F);
  EXPECT_EQ(flags.choice, 2);
}

TEST(FlagGroup, LeavesDefaultsWhereNothingIsGiven) {
  Flags flags;
  flags.app.parse(std::vector<std::string>{});
  EXPECT_FALSE(flags.text.has_value());
  EXPECT_EQ(flags.count, 5U);
  EXPECT_THAT(flags.app.help(), HasSubstr("N=5"));
  EXPECT_THAT(flags.app.help(), HasSubstr("one|two"));
}

TEST(FlagGroup, ShowsNoDefaultThatNobodyMayGive) {
  CLI::App app;
  uint64_t automatic = 0;
  FlagGroup(app, "Flags").Count("--parallel", "N", automatic, "", 1, 9);
  EXPECT_THAT(app.help(), HasSubstr("--parallel N"));
  EXPECT_THAT(app.help(), Not(HasSubstr("=0")));
}

TEST(FlagGroup, TextsAreTakenAsTheyAre) {
  Flags flags;
  flags.app.parse(std::vector<std::string>{"{}", "--stop", "[a,b]", "--stop", "", "-p"});
  EXPECT_EQ(flags.text, "");
  EXPECT_EQ(flags.texts, (std::vector<std::string>{"[a,b]", "{}"}));
}

TEST(FlagGroup, RefusesRepetitionAndUnknownWords) {
  Flags flags;
  EXPECT_THAT(MessageOf([&] {
                flags.app.parse(std::vector<std::string>{"2", "-n", "1", "-n"});
              }),
              HasSubstr("more than once"));
  EXPECT_EQ(MessageOf([&] {
              flags.app.parse(std::vector<std::string>{"three", "--kind"});
            }),
            "--kind: \"three\" is not one of one, two");
}

}  // namespace
}  // namespace kimi_k3
