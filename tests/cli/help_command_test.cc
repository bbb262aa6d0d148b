// Help for those who type words, and other names for what is meant.
#include "cli/help_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(HelpCommand, IsTheHelpFlagAsAWord) {
  EXPECT_EQ(RunProgram({"help"}).out, RunProgram({"--help"}).out);
  for (const char* command : {"run", "chat", "plan", "synth", "tokenize"}) {
    const ProgramResult word = RunProgram({"help", command});
    EXPECT_EQ(word.exit_code, 0);
    EXPECT_EQ(word.out, RunProgram({command, "--help"}).out);
    EXPECT_NE(word.out, "");
  }
}

TEST(HelpCommand, ForAnUnknownCommandNamesTheOneThatWasMeant) {
  const ProgramResult result = RunProgram({"help", "tokenise"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean tokenize?"));
  EXPECT_EQ(RunProgram({"help", "zzz"}).exit_code, 2);
}

TEST(RunAsACommand, IsTheSameAsNoCommand) {
  const std::vector<std::string> flags = {"-m", SmallModel(), "--token-ids", "1,2,3", "-n", "5"};
  std::vector<std::string> named = flags;
  named.insert(named.begin(), "run");
  EXPECT_EQ(RunProgram(named).out, RunProgram(flags).out);
  EXPECT_EQ(RunProgram({"run"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"run", "-m", "/no/model", "-p", "x"}).exit_code, 3);
}

}  // namespace
}  // namespace kimi_k3
