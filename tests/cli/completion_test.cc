// Tests of shell completion and the manual page, with the shells that are there.
#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "base/error.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// What bash offers when the last of the words is being typed.
std::string BashOffers(const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  std::ofstream(folder / "completion") << RunProgram({"completion", "bash"}).out;
  std::string script = "source '" + (folder / "completion") + "'; COMP_WORDS=(";
  for (const std::string& word : words) script += "'" + word + "' ";
  script += "); COMP_CWORD=";
  script += std::to_string(words.size() - 1);
  script += "; _kimi_k3; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const ProgramResult result = Program({"/bin/bash", "-c", script}).Finish();
  EXPECT_EQ(result.err, "");
  return "\n" + result.out;
}

TEST(Completion, BashKnowsCommandsFlagsAndWords) {
  EXPECT_THAT(BashOffers({"kimi_k3", "ver"}), HasSubstr("\nverify\n"));
  EXPECT_THAT(BashOffers({"kimi_k3", "--eff"}), HasSubstr("\n--effort\n"));
  EXPECT_EQ(BashOffers({"kimi_k3", "--effort", ""}), "\nlow\nhigh\nmax\n");
  EXPECT_EQ(BashOffers({"kimi_k3", "verify", "--rep"}), "\n--repair\n");
  EXPECT_THAT(BashOffers({"kimi_k3", "inspect", "-m", KIMI_K3_SOURCE_DIR "/sr"}),
              HasSubstr("/src\n"));
  EXPECT_THAT(BashOffers({"kimi_k3", "ver"}), testing::Not(HasSubstr("completion")));
}

TEST(Completion, EveryFlagOfTheTableIsInEveryScript) {
  CLI::App app("test", "kimi_k3");
  bool one = false;
  app.add_flag("--one", one, "First");
  CLI::App* command = app.add_subcommand("two", "It's [a]: test");
  command->add_option("-t,--three,DIR", "Third")->type_name("DIR");
  AddCompletionCommands(app);
  const OptionTable table = MakeOptionTable(app);
  ASSERT_EQ(table.commands.size(), 3U);  // with those that write completions and the manual
  ASSERT_EQ(table.commands[0].arguments.size(), 1U);
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(table, shell);
    for (const char* word : {"one", "two", "three"}) EXPECT_THAT(script, HasSubstr(word)) << shell;
  }
  EXPECT_THAT(CompletionScript(table, "zsh"), HasSubstr("It'\\''s \\[a\\]\\: test"));
  EXPECT_THAT(CompletionScript(table, "fish"), HasSubstr("'It\\'s [a]: test'"));
  EXPECT_THROW(CompletionScript(table, "csh"), Error);
}

TEST(Completion, ScriptsAreValidWhereTheShellIsThere) {
  const TemporaryFolder folder;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const ProgramResult script = RunProgram({"completion", shell});
    ASSERT_EQ(script.exit_code, 0) << script.err;
    std::ofstream(folder / shell) << script.out;
    const ProgramResult check = Program({"/bin/sh", "-c",
                                         "! command -v " + shell + " >/dev/null || " + shell +
                                             " -n '" + (folder / shell) + "'"})
                                    .Finish();
    EXPECT_EQ(check.exit_code, 0) << shell << check.err;
  }
  EXPECT_EQ(RunProgram({"completion", "csh"}).exit_code, 2);
}

TEST(ManualPage, NamesEveryCommandAndFlag) {
  const ProgramResult page = RunProgram({"man"});
  ASSERT_EQ(page.exit_code, 0);
  EXPECT_TRUE(page.out.starts_with(".TH KIMI_K3 1\n"));
  for (const char* text :
       {"\\-\\-expert\\-cache", ".SS kimi_k3 verify", "\\-\\-repair", ".SH EXIT STATUS"}) {
    EXPECT_THAT(page.out, HasSubstr(text));
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "kimi_k3.1") << page.out;
  const ProgramResult check = Program({"/bin/sh", "-c",
                                       "! command -v groff >/dev/null || groff -man -Tutf8 -ww '" +
                                           (folder / "kimi_k3.1") + "' >/dev/null"})
                                  .Finish();
  EXPECT_EQ(check.err, "");
}

}  // namespace
}  // namespace kimi_k3
