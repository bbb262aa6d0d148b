// Flags that several commands share: what is refused, and with what words.
#include "cli/shared_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SizeFlags, APlainSmallNumberIsRefusedWithWhatWasProbablyMeant) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{}, {"plan"}, {"chat"}}) {
    for (const char* flag : {"--memory", "--expert-cache"}) {
      auto arguments = command;
      arguments.insert(arguments.end(), {"-m", "x", flag, "8"});
      const ProgramResult result = RunProgram(arguments);
      EXPECT_EQ(result.exit_code, 2) << result.err;
      EXPECT_THAT(result.err, HasSubstr("did you mean 8G?"));
      EXPECT_THAT(result.err, HasSubstr(flag));
    }
  }
  EXPECT_EQ(RunProgram({"-m", SmallModel(), "--token-ids", "1", "-n", "1", "--expert-cache", "0"})
                .exit_code,
            0);
}

TEST(TokenIdsFlag, ANumberThatIsMissingIsTold) {
  for (const char* ids : {"1,,2", ",1", "1, ,2"}) {
    const ProgramResult result = RunProgram({"-m", SmallModel(), "--token-ids", ids});
    EXPECT_EQ(result.exit_code, 2) << ids;
    EXPECT_THAT(result.err, HasSubstr("missing before comma")) << ids;
  }
  EXPECT_EQ(RunProgram({"-m", SmallModel(), "--token-ids", "1, 2\n3", "-n", "1"}).exit_code, 0);
}

TEST(EffortFlag, AndPathFlagsAreTheSameForRunAndChat) {
  for (const char* command : {"run", "chat"}) {
    EXPECT_THAT(RunProgram({command, "-m", "x", "--effort", "some"}).err, HasSubstr("\"some\""));
    EXPECT_THAT(RunProgram({command, "-m", "x", "--stats", ""}).err, HasSubstr("empty"));
    EXPECT_THAT(RunProgram({command, "-m", "x", "--session", ""}).err, HasSubstr("empty"));
  }
}

TEST(DraftFlag, TakesAKindAndANumberAndNothingElse) {
  for (const char* command : {"run", "chat", "serve"}) {
    for (const char* value : {"", "some", "none:1", "ngram:", "ngram:0", "ngram:17", "ngram:x"}) {
      const ProgramResult result = RunProgram({command, "-m", "x", "--draft", value});
      EXPECT_EQ(result.exit_code, 2) << command << ' ' << value;
      EXPECT_THAT(result.err, HasSubstr("--draft")) << command << ' ' << value;
    }
  }
}

TEST(DraftFlag, ChangesThePassesOfATextAndNotTheText) {
  const std::vector<std::string> run = {
      "-m", KIMI_K3_SOURCE_DIR "/models/tiny", "--raw", "-p", "And God said, Let there be", "-n",
      "150", "--repeat-penalty", "1"};
  const ProgramResult plain = RunProgram(run);
  for (const char* draft : {"none", "ngram", "ngram:16"}) {
    std::vector<std::string> arguments = run;
    arguments.insert(arguments.end(), {"--draft", draft});
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, plain.out) << draft;
    if (std::string_view(draft) == "none") continue;
    EXPECT_THAT(result.err, HasSubstr("tokens a pass"));
  }
}

TEST(Terminal, GetsNoControlCharactersFromAName) {
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  const ProgramResult result = RunProgram({"-m", "/no/\x1b[31mmodel", "--token-ids", "1"}, options);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b[31m")));
  EXPECT_THAT(result.err, HasSubstr("^[[31mmodel"));
}

TEST(Terminal, IsToldThatItsInputIsAwaited) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-m", TinyModel(), "-f", "-", "-n", "1"},
        {"tokenize", "-m", TinyModel()}}) {
    ProgramOptions options;
    options.streams = Streams::kTerminal;
    Program program(ProgramCommand(arguments), options);
    program.AwaitOutput("Ctrl-D ends the text");
    program.Type("hello\n\x04");
    EXPECT_EQ(program.Finish().exit_code, 0);
  }
}

TEST(Tokenize, EndsWith130WhereASignalComesAndTellsOfInputThatCannotBeRead) {
  ProgramOptions options;
  options.keep_input_open = true;
  options.input = "text";
  Program program(ProgramCommand({"tokenize", "-m", TinyModel()}), options);
  program.AwaitHandler(SIGTERM);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Finish().exit_code, 130);
  const ProgramResult folder =
      Program({"/bin/sh", "-c",
               std::string(KIMI_K3_PROGRAM) + " tokenize -m '" + TinyModel() + "' < /"})
          .Finish();
  EXPECT_EQ(folder.exit_code, 5);
  EXPECT_THAT(folder.err, HasSubstr("directory"));
}

TEST(Plan, EndsWith130WhereASignalComes) {
  Program program(ProgramCommand({"plan", "-m", TinyModel()}));
  program.AwaitHandler(SIGTERM);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Finish().exit_code, 130);
}

}  // namespace
}  // namespace kimi_k3
