// Commands and flags as the sources of the command line see them.
#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/flag_group.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(CommandLine, RunsTheCommandThatIsThere) {
  CLI::App app;
  bool ran = false;
  bool other = false;
  OnCommand(AddCommand(app, "one", "help"), [&] { ran = true; });
  OnCommand(AddCommand(app, "two", "help"), [&] { other = true; });
  app.parse("one");
  EXPECT_TRUE(ran);
  EXPECT_FALSE(other);
}

TEST(CommandLine, KnowsWhichFlagsWereGiven) {
  CLI::App app;
  bool on = false;
  size_t count = 3;
  FlagGroup group(app, "Flags");
  group.Switch("--on", on, "help");
  group.Count("--count", "N", count, "help");
  app.parse("--count 5");
  EXPECT_TRUE(IsGiven(app, "--count"));
  EXPECT_FALSE(IsGiven(app, "--on"));
  EXPECT_EQ(count, 5U);
}

TEST(ReadFlags, ReadsATextAsFlagsAndNamesTheFlagWhoseValueItIs) {
  size_t count = 0;
  const auto add = [&](CLI::App& app) {
    FlagGroup group(app, "Flags");
    group.Count("--count", "N", count, "help");
  };
  ReadFlags("--with", "--count 7", add);
  EXPECT_EQ(count, 7U);
  for (const char* text : {"--count x", "--other 1", "--count", "--help", "word"}) {
    try {
      ReadFlags("--with", text, add);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("--with \"" + std::string(text) + "\""));
    }
  }
}

TEST(ReadFlags, TakesWordsAsAShellDoes) {
  std::optional<std::string> name;
  const auto read = [&](const std::string& text) {
    name.reset();
    ReadFlags("--with", text, [&](CLI::App& app) {
      FlagGroup group(app, "Flags");
      group.Text("--name", "NAME", name, "help");
    });
    return name.value_or("none");
  };
  EXPECT_EQ(read("  --name\ta  "), "a");
  EXPECT_EQ(read("--name 'a  b'"), "a  b");
  EXPECT_EQ(read("--name=\"a \\\"b\\\\\""), "a \"b\\");
  EXPECT_EQ(read("--name it\"'\"s"), "it's");
  EXPECT_EQ(read("--name ''"), "");
  EXPECT_EQ(read(""), "none");
  for (const char* open : {"--name 'a", "--name a'", "--name \"a\\\"", "\""}) {
    try {
      read(open);
      ADD_FAILURE() << open;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("--with \"" + std::string(open) + "\": "));
    }
  }
}

}  // namespace
}  // namespace kimi_k3
