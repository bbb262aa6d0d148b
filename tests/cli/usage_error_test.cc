// What is said about a wrong command line.
#include "cli/usage_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ClosestWord, FindsMisspeltAndUnfinishedWordsButGuessesNothing) {
  const std::vector<std::string> known = {"--temp", "--top-k", "--top-p", "--threads", "-n"};
  EXPECT_EQ(ClosestWord("--tmep", known), "--temp");
  EXPECT_EQ(ClosestWord("--thread", known), "--threads");
  EXPECT_EQ(ClosestWord("--thr", known), "--threads");
  EXPECT_EQ(ClosestWord("--topk", known), "--top-k");
  EXPECT_EQ(ClosestWord("--verbose", known), "");
  EXPECT_EQ(ClosestWord("-x", known), "");
  EXPECT_EQ(ClosestWord("", known), "");
}

class Described : public testing::Test {
 protected:
  Described() {
    app_.add_option("-m,--model", model_, "");
    app_.parse_complete_callback([this] { CheckPlaceOfFlags(app_); });
    CLI::App* plan = app_.add_subcommand("plan", "");
    plan->add_option("-m,--model", model_, "")->required();
  }

  // The arguments in order.
  std::string Describe(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return DescribeUsageError(app_, error);
    }
    return "fine";
  }

  CLI::App app_;
  std::string model_;
};

TEST_F(Described, FlagsAndCommands) {
  EXPECT_EQ(Describe({"-m", "x"}), "fine");
  EXPECT_EQ(Describe({"plan", "-m", "x"}), "fine");
  EXPECT_EQ(Describe({"--modle", "x"}),
            "there is no flag --modle; did you mean --model? (kimi_k3 --help lists the flags)");
  EXPECT_THAT(Describe({"--verbose=3"}), HasSubstr("there is no flag --verbose ("));
  EXPECT_THAT(Describe({"paln"}), HasSubstr("no command paln; did you mean plan?"));
  EXPECT_THAT(Describe({"-m", "x", "a prompt"}), HasSubstr("needs quotes"));
  EXPECT_EQ(Describe({"-m"}), "--model needs a value (kimi_k3 --help lists the flags)");
  EXPECT_THAT(Describe({"plan", "-m", "x", "more"}),
              HasSubstr("\"more\" is more than the plan command takes"));
  EXPECT_THAT(Describe({"plan", "--nope"}), HasSubstr("no flag --nope of the plan command"));
  EXPECT_THAT(Describe({"plan"}), HasSubstr("--model is required (kimi_k3 plan --help"));
}

TEST_F(Described, FlagsBeforeACommand) {
  EXPECT_THAT(Describe({"-m", "x", "plan"}), HasSubstr("write kimi_k3 plan --model"));
  EXPECT_THAT(Describe({"-m", "x", "plan", "-m", "x"}), HasSubstr("write kimi_k3 plan --model"));
}

}  // namespace
}  // namespace kimi_k3
