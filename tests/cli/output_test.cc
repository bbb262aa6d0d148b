// The live line on a terminal: there while it can be seen, gone from everything else.
#include "cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "cli/program.h"
#include "cli/screen.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ids enough to fill many rows, with a live line between them.
std::vector<std::string> Ids(const char* count, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"-m",  SmallModel(),   "--token-ids", "1,2,3", "-n",
                                        count, "--ignore-eos", "-c",          "100000"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return ProgramCommand(arguments);
}

// The rows of a terminal that shows `text` and nothing else.
std::vector<std::string> RowsOf(const std::string& text, size_t rows, size_t columns) {
  Screen screen(rows, columns);
  for (const char c : text) screen.Feed(c == '\n' ? std::string("\r\n") : std::string(1, c));
  return screen.Rows();
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Of the last line about a token that was shown whole.
std::optional<size_t> LastStatusWidth(const std::string& shown) {
  const size_t end = shown.rfind("\x1b[J");
  if (end == std::string::npos) return std::nullopt;
  const size_t begin = shown.rfind("\rtoken ", end);
  if (begin == std::string::npos) return std::nullopt;
  return shown.find('\x1b', begin) - begin - 1;
}

class Terminal : public testing::TestWithParam<std::pair<unsigned short, unsigned short>> {};

TEST_P(Terminal, TextAndLiveLineShareItAndOnlyTheTextStays) {
  const auto [rows, columns] = GetParam();
  ProgramOptions options;
  options.streams = Streams::kTerminal;
  options.rows = rows;
  options.columns = columns;
  const ProgramResult result = Program(Ids("1500"), options).Finish();
  ASSERT_EQ(result.exit_code, 0) << result.out;
  ASSERT_GE(Count(result.out, "token "), 1U) << "no live line was shown";
  Screen screen(rows, columns);
  screen.Feed(result.out);

  const ProgramResult plain = Program(Ids("1500")).Finish();
  // The first and last lines on standard error tell of the machine and the times.
  const std::vector<std::string> expected = RowsOf(plain.out, rows, columns);
  const std::vector<std::string> shown = screen.Rows();
  const auto first = std::search(shown.begin(), shown.end(), expected.begin(), expected.end());
  ASSERT_NE(first, shown.end()) << testing::PrintToString(shown);
  for (const std::string& row : shown) {
    EXPECT_THAT(row, Not(HasSubstr("tokens/s"))) << "a live line was left behind";
    EXPECT_THAT(row, Not(HasSubstr("opening"))) << "a live line was left behind";
  }
}

// Narrow and low ones make the text fill the last column and scroll at every turn.
INSTANTIATE_TEST_SUITE_P(Sizes, Terminal,
                         testing::Values(std::pair{24, 80}, std::pair{5, 40}, std::pair{2, 21},
                                         std::pair{3, 7}),
                         [](const auto& size) {
                           return std::to_string(size.param.first) + "x" +
                                  std::to_string(size.param.second);
                         });

TEST(LiveLine, TellsPhaseLayerSpeedMemoryAndTimeLeft) {
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  options.columns = 200;
  const ProgramResult result = Program(Ids("1500", {"--prompt-chunk", "1"}), options).Finish();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("opening "));
  EXPECT_THAT(result.err,
              testing::ContainsRegex("prompt: [0-3] of 3 tokens done, layer [0-7] of 7"));
  EXPECT_THAT(result.err,
              testing::ContainsRegex("token [0-9]+ of 1500, layer [0-7] of 7, [0-9.e+]+ tokens/s"));
  EXPECT_THAT(result.err, HasSubstr("in memory"));
  EXPECT_THAT(result.err, testing::ContainsRegex("at most [0-9]+ s left"));
  EXPECT_EQ(result.out, Program(Ids("1500")).Finish().out) << "the text is the same";
  Screen screen(24, 200);
  screen.Feed(result.err);
  for (const std::string& row : screen.Rows()) EXPECT_THAT(row, Not(HasSubstr("tokens/s")));
}

TEST(LiveLine, IsCutToTheWidthThatTheTerminalHasNow) {
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  options.columns = 200;
  Program program(Ids("90000"), options);
  program.AwaitError("left");
  program.Resize(24, 30);
  program.AwaitErrorWhere([](const std::string& shown) { return LastStatusWidth(shown) == 29U; });
  program.Signal(SIGINT);
  const ProgramResult result = program.Finish();
  ASSERT_EQ(result.exit_code, 130);
  EXPECT_EQ(LastStatusWidth(result.err), 29U) << "a later line is as wide";
}

TEST(LiveLine, VanishesWherePipedQuietOrOnATerminalThatCannot) {
  const ProgramResult piped = Program(Ids("200")).Finish();
  EXPECT_THAT(piped.err, Not(testing::AnyOf(HasSubstr("\r"), HasSubstr("\x1b"))));
  EXPECT_THAT(piped.out, Not(testing::AnyOf(HasSubstr("\r"), HasSubstr("\x1b"))));
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  EXPECT_EQ(Program(Ids("200", {"--quiet"}), options).Finish().err, "");
  options.environment = {"TERM=dumb"};
  const ProgramResult dumb = Program(Ids("200"), options).Finish();
  EXPECT_THAT(dumb.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(dumb.err, HasSubstr("generated"));
}

TEST(LiveLine, ErrorsStandOnALineOfTheirOwn) {
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  const ProgramResult result = RunProgram({"-m", "/no/such/model", "--token-ids", "1"}, options);
  EXPECT_EQ(result.exit_code, 3);
  Screen screen(24, 80);
  screen.Feed(result.err);
  ASSERT_FALSE(screen.Rows().empty());
  EXPECT_THAT(screen.Rows().front(), testing::StartsWith("kimi_k3: /no/such/model"));
}

TEST(Output, NoControlCharacterOfTheModelReachesATerminal) {
  ProgramOptions options;
  options.streams = Streams::kTerminal;
  options.columns = 500;
  for (const char* seed : {"1", "2", "3", "4"}) {
    const ProgramResult result =
        RunProgram({"-m", TinyModel(), "--raw", "-p", "It", "-n", "600", "--ignore-eos", "--temp",
                    "1000", "--seed", seed, "--quiet"},
                   options);
    ASSERT_EQ(result.exit_code, 0) << result.out;
    // 2304 tokens, drawn nearly evenly, 256 of them single bytes: without care there would be some.
    for (const char c : result.out) {
      const auto byte = static_cast<unsigned char>(c);
      EXPECT_TRUE(byte >= 0x20 || c == '\n' || c == '\r' || c == '\t') << static_cast<int>(byte);
      EXPECT_NE(byte, 0x7f);
    }
  }
}

}  // namespace
}  // namespace kimi_k3
