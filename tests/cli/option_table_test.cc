// Tests of the table of commands and flags.
#include "cli/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace kimi_k3 {
namespace {

TEST(OptionTable, SaysWhatTheParserKnows) {
  CLI::App app("test", "kimi_k3");
  app.footer("the end");
  bool given = false;
  app.add_flag("-s,--switch", given, "A switch")->group("Some");
  app.add_option("--value", "A value")->type_name("N");
  CLI::App* shown = app.add_subcommand("shown", "A command");
  shown->add_option("WORD", "An argument")->type_name("WORD");
  app.add_subcommand("hidden", "Another")->group("");
  const OptionTable table = MakeOptionTable(app);
  EXPECT_EQ(table.footer, "the end");
  ASSERT_EQ(table.program.flags.size(), 3U);  // with --help
  EXPECT_THAT(table.program.flags[1].names, testing::ElementsAre("-s", "--switch"));
  EXPECT_EQ(table.program.flags[1].value, "");
  EXPECT_EQ(table.program.flags[1].group, "Some");
  EXPECT_EQ(table.program.flags[2].value, "N");
  ASSERT_EQ(table.commands.size(), 1U);
  EXPECT_EQ(table.commands[0].name, "shown");
  ASSERT_EQ(table.commands[0].arguments.size(), 1U);
  EXPECT_EQ(table.commands[0].arguments[0].help, "An argument");
}

TEST(OptionTable, ReadsTheWordsOfAValue) {
  EXPECT_THAT(WordsOfValue("low|high|max"), testing::ElementsAre("low", "high", "max"));
  EXPECT_TRUE(WordsOfValue("SIZE").empty());
}

}  // namespace
}  // namespace kimi_k3
