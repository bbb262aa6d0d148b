// Conversations as people have them: through a pipe, on a terminal, kept in a file.
#include "cli/chat_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kQuestion = "What is Genesis 1:1?";

// Greedy answers of thirty tokens, unless `more` says otherwise.
std::vector<std::string> Chat(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"chat", "-m", TinyModel()};
  for (const auto& [flag, value] : {std::pair{"-n", "30"}, std::pair{"--temp", "0"}}) {
    if (std::find(more.begin(), more.end(), flag) == more.end()) {
      arguments.insert(arguments.end(), {flag, value});
    }
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

ProgramResult Talk(const std::string& input, const std::vector<std::string>& more = {}) {
  ProgramOptions options;
  options.input = input;
  return RunProgram(Chat(more), options);
}

std::string Answers(const std::string& input, const std::vector<std::string>& more = {}) {
  const ProgramResult result = Talk(input, more);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  return result.out;
}

std::string Line(const std::string& text) { return text + "\n"; }

SessionNote NoteIn(const std::string& path) { return ReadSessionNote(ReadSessionInfo(path), path); }

nlohmann::json Stats(const std::string& path) { return nlohmann::json::parse(ReadFile(path)); }

TEST(ChatByPipe, AnswersAsARunDoes) {
  const ProgramResult run =
      RunProgram({"-m", TinyModel(), "-n", "30", "-p", kQuestion, "--system", "Be brief."});
  EXPECT_EQ(Answers(Line(kQuestion), {"--system", "Be brief."}), run.out);
  EXPECT_EQ(Answers(kQuestion, {"--system", "Be brief."}), run.out) << "without a line feed";
}

TEST(ChatByPipe, AnAnswerThatWasCutGoesOn) {
  const TemporaryFolder folder;
  const std::string whole = Answers(Line(kQuestion), {"-n", "12"});
  const std::string cut = Answers(Line(kQuestion), {"-n", "6"});
  ASSERT_NE(cut, whole);
  const std::string both =
      Answers(Line(kQuestion) + Line("/continue"),
              {"-n", "6", "--session", folder / "s", "--stats", folder / "stats"});
  EXPECT_EQ(both, cut + whole);
  EXPECT_EQ(Stats(folder / "stats").at("prompt_tokens"), 1);
  EXPECT_EQ(NoteIn(folder / "s").answer().size(), 12U);
}

TEST(ChatByPipe, OnlyWhatIsNotCompleteGoesOn) {
  EXPECT_THAT(Talk(Line("/continue")).err, HasSubstr("no answer to go on with"));
  EXPECT_THAT(Talk(Line("Hello.") + Line("/continue"), {"-n", "200"}).err,
              HasSubstr("the answer is complete"));
}

TEST(ChatByPipe, ASecondTurnCostsItsOwnTokensOnly) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {"--session", folder / "s", "--stats", folder / "stats"};
  Answers(Line(kQuestion), flags);
  const auto first = Stats(folder / "stats");
  const size_t seen = ReadSessionInfo(folder / "s").tokens.size();
  Answers(Line("And the next verse?"), flags);
  const auto second = Stats(folder / "stats");
  EXPECT_EQ(first.at("reused_tokens"), 0);
  EXPECT_EQ(second.at("reused_tokens"), seen);
  EXPECT_EQ(second.at("prompt_tokens").get<size_t>(), NoteIn(folder / "s").answer_begin - seen);
  EXPECT_LT(second.at("prompt_tokens"), 60);
}

TEST(ChatByPipe, ThePromptOfALaterTurnIsTheWholeConversationRendered) {
  const TemporaryFolder folder;
  const std::string both =
      Answers(Line(kQuestion) + Line("And the next verse?"), {"--session", folder / "s"});
  const SessionNote note = NoteIn(folder / "s");
  std::string ids;
  for (size_t i = 0; i < note.answer_begin; ++i) ids += std::to_string(note.text[i]) + " ";
  const ProgramResult fresh =
      RunProgram({"-m", TinyModel(), "-n", "30", "--token-ids", ids, "--print-ids"});
  std::string answer;
  for (const TokenId token : note.answer()) answer += std::to_string(token) + " ";
  answer.back() = '\n';
  EXPECT_EQ(fresh.out, answer);
  EXPECT_THAT(both, Not(testing::IsEmpty()));
}

TEST(ChatByPipe, ASessionKeepsTheConversationAcrossRuns) {
  const TemporaryFolder folder;
  const std::string together = Answers(Line(kQuestion) + Line("Go on.") + Line("More."));
  std::string apart;
  for (const char* message : {kQuestion, "Go on.", "More."}) {
    apart += Answers(Line(message), {"--session", folder / "s"});
  }
  EXPECT_EQ(apart, together);
}

TEST(ChatByPipe, FlagsThatAreGivenCountMoreThanWhatASessionWasBegunWith) {
  const TemporaryFolder folder;
  ProgramOptions options;
  options.input = "hello\n";
  const auto chat = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"chat", "-m",        TinyModel(), "-n",
                                    "3",    "--session", folder / "s"};
    all.insert(all.end(), flags.begin(), flags.end());
    return RunProgram(all, options);
  };
  EXPECT_EQ(chat({"--temp", "0.5", "--seed", "5", "--min-p", "0.1"}).exit_code, 0);
  EXPECT_EQ(chat({"--temp", "0", "--repeat-penalty", "1.5"}).exit_code, 0);
  const SamplingOptions sampling = NoteIn(folder / "s").sampling;
  EXPECT_EQ(sampling.temperature, 0.0F);
  EXPECT_EQ(sampling.repeat_penalty, 1.5F);
  EXPECT_EQ(sampling.seed, 5U);
  EXPECT_EQ(sampling.min_p, 0.1F);
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--no-thinking"}, {"--effort", "low"}}) {
    const ProgramResult refused = chat(flags);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr(flags.front()));
  }
}

TEST(ChatByPipe, TheSeedIsAnotherOneEachTimeUnlessItIsGiven) {
  const TemporaryFolder folder;
  const auto seed_of = [&](const std::vector<std::string>& flags) {
    std::filesystem::remove(folder / "s");
    auto all = flags;
    all.insert(all.end(), {"--session", folder / "s"});
    Answers(Line("hello"), all);
    return NoteIn(folder / "s").sampling.seed;
  };
  EXPECT_NE(seed_of({}), seed_of({}));
  EXPECT_EQ(seed_of({"--seed", "7"}), 7U);
  ProgramOptions options;
  options.input = "hello\n";
  std::filesystem::remove(folder / "s");
  RunProgram({"chat", "-m", TinyModel(), "-n", "3", "--session", folder / "s"}, options);
  const SamplingOptions defaults = NoteIn(folder / "s").sampling;
  EXPECT_EQ(defaults.temperature, 1.0F);
  EXPECT_EQ(defaults.top_p, 0.95F);
}

TEST(ChatByPipe, AnswersEndBeforeAStopText) {
  const TemporaryFolder folder;
  const std::string whole = Answers(Line(kQuestion), {"--no-thinking"});
  ASSERT_THAT(whole, HasSubstr("God created"));
  const std::string cut = Answers(Line(kQuestion), {"--no-thinking", "--stop", "nowhere", "--stop",
                                                    " created", "--session", folder / "s"});
  EXPECT_EQ(cut, whole.substr(0, whole.find(" created")) + "\n");
  EXPECT_EQ(NoteIn(folder / "s").stop, (std::vector<std::string>{"nowhere", " created"}));
  Answers(Line(kQuestion), {"--stop", "other", "--session", folder / "s"});
  EXPECT_EQ(NoteIn(folder / "s").stop, std::vector<std::string>{"other"});
  EXPECT_EQ(Talk("hello\n", {"--stop", ""}).exit_code, 2);
}

TEST(ChatByPipe, MessagesOfSeveralLines) {
  const TemporaryFolder folder;
  Answers("one\\\ntwo\n\"\"\"\n/three\nfour\n\"\"\"\n", {"-n", "3", "--session", folder / "s"});
  const SessionNote note = NoteIn(folder / "s");
  ASSERT_EQ(note.messages.size(), 3U);
  EXPECT_EQ(note.messages[0].content[0].text, "one\ntwo");
  EXPECT_EQ(note.messages[2].content[0].text, "/three\nfour");
}

TEST(ChatByPipe, AKilledChatGoesOnInMidAnswer) {
  const TemporaryFolder folder;
  const std::vector<std::string> wild = {"-n", "200", "-t", "1", "--temp", "30", "--seed", "5"};
  const std::string expected = Answers(Line(kQuestion), wild);
  auto flags = wild;
  flags.insert(flags.end(), {"--session", folder / "s", "--session-every", "5"});
  ProgramOptions options;
  options.input = Line(kQuestion);
  for (int kill = 0; kill < 3; ++kill) {
    Program program(ProgramCommand(Chat(flags)), options);
    options.input = "";
    program.AwaitOutput("<think>");
    program.Signal(SIGKILL);
    program.Finish();
  }
  EXPECT_EQ(Answers("", flags), expected);
}

TEST(ChatCommands, HelpSystemThinkStatsAndQuit) {
  const std::string help = Answers("/help\n");
  for (const char* command : {"/system", "/think", "/reset", "/save", "/load", "/stats", "/quit"}) {
    EXPECT_THAT(help, HasSubstr(command));
  }
  const TemporaryFolder folder;
  const std::string system =
      Answers("/system Be brief.\n/system\nhello\n", {"-n", "3", "--session", folder / "s"});
  EXPECT_THAT(system, StartsWith("Be brief.\n"));
  EXPECT_EQ(NoteIn(folder / "s").messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(NoteIn(folder / "s").messages.size(), 2U);
  EXPECT_THAT(Answers(Line(kQuestion)), HasSubstr("<think>"));
  EXPECT_THAT(Answers("/think hide\n" + Line(kQuestion)), Not(HasSubstr("<think>")));
  EXPECT_THAT(Answers(Line(kQuestion), {"--hide-thinking"}), Not(HasSubstr("<think>")));
  EXPECT_THAT(Answers("hello\n/stats\n"), HasSubstr("1 answer; "));
  EXPECT_EQ(Answers("/quit\nhello\n"), "");
}

TEST(ChatCommands, AMistakeIsToldAndTheChatGoesOnButItsExitCodeTellsOfIt) {
  for (const std::string line : {"/hlep", "/think loudly", "/save", "/load", "/load /no/such/file",
                                 "/save /no/such/folder/s"}) {
    const ProgramResult result = Talk(line + "\nhello\n", {"-n", "3"});
    EXPECT_EQ(result.exit_code, 1) << line;
    EXPECT_THAT(result.err, HasSubstr("kimi_k3: ")) << line;
    EXPECT_THAT(result.out, Not(testing::IsEmpty())) << line;
  }
}

TEST(ChatCommands, AMessageThatTheInputCutsOffIsToldOf) {
  for (const std::string begun : {"\"\"\"\nhello\n", "hello\\"}) {
    const ProgramResult result = Talk(begun);
    EXPECT_EQ(result.exit_code, 1) << begun;
    EXPECT_EQ(result.out, "") << begun;
    EXPECT_THAT(result.err, HasSubstr("ends within a message")) << begun;
  }
}

TEST(ChatCommands, SaveAndLoadMoveAConversation) {
  const TemporaryFolder folder;
  const std::string together = Answers(Line(kQuestion) + Line("Go on."));
  const std::string first = Answers(Line(kQuestion) + "/save " + (folder / "s") + "\n");
  const std::string second =
      Talk("hello\n/load " + (folder / "s") + "\n/hlep\n" + Line("Go on."), {"-n", "30"}).out;
  EXPECT_THAT(second, testing::EndsWith(together.substr(first.size())));
  const ProgramResult again = Talk(Line("hello") + "/save " + (folder / "s") + "\n", {"-n", "3"});
  EXPECT_THAT(again.err, HasSubstr("there already"));
}

TEST(ChatCommands, ALoadThatFailsSaysWhyAndThenWhatBecomesOfTheConversation) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunProgram(
                {"-m", TinyModel(), "--raw", "-p", "It is", "-n", "2", "--session", folder / "raw"})
                .exit_code,
            0);
  ASSERT_EQ(RunProgram({"-m", TinyModel(), "-p", "hello", "-n", "2", "--session", folder / "other",
                        "--state-type", "bf16"})
                .exit_code,
            0);
  for (const auto& [file, problem, consequence] :
       {std::tuple{"raw", "without the chat format", "the conversation before goes on\n"},
        std::tuple{"other", "--state-type bf16", "its text goes through the model anew\n"}}) {
    const ProgramResult result = Talk("hello\n/load " + (folder / file) + "\nhello\n", {"-n", "3"});
    EXPECT_EQ(result.exit_code, 1);
    const size_t told = result.err.find(problem);
    ASSERT_NE(told, std::string::npos) << result.err;
    EXPECT_NE(result.err.find(consequence, told), std::string::npos) << result.err;
  }
}

TEST(ChatCommands, ResetForgetsButNotAFileByMistake) {
  const TemporaryFolder folder;
  const std::string once = Answers(Line(kQuestion));
  EXPECT_EQ(Answers(Line(kQuestion) + "/reset\n" + Line(kQuestion)), once + once);
  Answers(Line(kQuestion), {"--session", folder / "s"});
  const ProgramResult kept = Talk("/reset\n", {"--session", folder / "s"});
  EXPECT_THAT(kept.err, HasSubstr("/reset yes"));
  EXPECT_THAT(Talk("/reset no\n").err, HasSubstr("no argument but yes"));
  const std::string large = Line(std::string(40000, 'x'));
  EXPECT_THAT(Talk(large, {"--session", folder / "s"}).err, HasSubstr("/reset yes begins anew"));
  EXPECT_EQ(Answers("/reset yes\n" + Line(kQuestion), {"--session", folder / "s"}), once);
  EXPECT_EQ(NoteIn(folder / "s").messages.size(), 1U);
}

TEST(ChatCommands, AConversationThatHasNoRoomIsToldSo) {
  const ProgramResult result =
      Talk(Line(kQuestion) + Line(std::string(2000, 'x')) + "/stats\n", {"-c", "200"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("/reset"));
  EXPECT_THAT(result.out, HasSubstr("1 answer; "));
}

TEST(ChatCommands, AFirstMessageThatHasNoRoomIsToldTheContextItNeeds) {
  const std::string message = Line(std::string(2000, 'x'));
  const ProgramResult refused = Talk(message, {"-c", "200"});
  EXPECT_THAT(refused.err, Not(HasSubstr("/reset")));
  const size_t advice = refused.err.find("(-c ");
  ASSERT_NE(advice, std::string::npos) << refused.err;
  const std::string context = std::to_string(std::stoul(refused.err.substr(advice + 4)));
  const ProgramResult answered = Talk(message, {"-c", context, "-n", "1"});
  EXPECT_THAT(answered.err, Not(HasSubstr("positions: begin"))) << answered.err;
}

TEST(ChatErrors, ASessionThatCannotBeSavedAnyMoreShowsInTheExitCode) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  ProgramOptions options;
  options.input = Line(kQuestion);
  Program program(
      ProgramCommand(Chat({"-n", "1000", "-c", "4000", "-t", "1", "--repeat-penalty", "1.3",
                           "--session", folder / "d/s", "--session-every", "1"})),
      options);
  program.AwaitOutput("\n");
  std::filesystem::rename(folder / "d", folder / "gone");
  const ProgramResult result = program.Finish();
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("--resume")));
}

TEST(ChatErrors, AreThoseOfARun) {
  EXPECT_EQ(RunProgram({"chat"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"chat", "-m", "/no/model"}).exit_code, 3);
  EXPECT_EQ(RunProgram({"chat", "-m", TinyModel(), "--memory", "1M"}).exit_code, 4);
  EXPECT_EQ(RunProgram({"chat", "-m", SmallModel()}).exit_code, 3);
  EXPECT_EQ(RunProgram(Chat({"--no-thinking", "--effort", "low"})).exit_code, 2);
  EXPECT_EQ(RunProgram(Chat({"--temp", "-1"})).exit_code, 2);
  const TemporaryFolder folder;
  RunProgram({"-m", SmallModel(), "--token-ids", "1", "-n", "2", "--session", folder / "raw"});
  EXPECT_EQ(RunProgram(Chat({"--session", folder / "raw"})).exit_code, 2);
}

ProgramOptions OnTerminal() {
  ProgramOptions options;
  options.streams = Streams::kTerminal;
  return options;
}

TEST(ChatOnTerminal, ALineIsEditedSentAndAnsweredFaintly) {
  Program program(ProgramCommand(Chat({"--seed", "7"})), OnTerminal());
  program.AwaitOutput("> ");
  program.Type(
      "What is Genesis 1:2\x7f"
      "1?\r");
  program.AwaitOutput("in memory\r\n> ");
  program.Type("/stats\r");
  program.AwaitOutput("seed 7\r\n> ");
  program.Type("\x04");
  const ProgramResult result = program.Finish();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\x1b[2mThe\x1b[22m"));  // reasoning is faint
  EXPECT_THAT(result.out, Not(HasSubstr("<think>")));
}

TEST(ChatOnTerminal, TheArrowKeyBringsBackWhatWasTyped) {
  Program program(ProgramCommand(Chat()), OnTerminal());
  program.AwaitOutput("> ");
  program.Type("/system first\r");
  program.AwaitOutput("before your first message\r\n> ");
  program.Type("\x1b[A second\r");
  program.Type("/system\r");
  program.AwaitOutput("first\r\nfirst second\r\n> ");
  program.Type("\x04");
  EXPECT_EQ(program.Finish().exit_code, 0);
}

TEST(ChatOnTerminal, CtrlCStopsTheAnswerAndTheConversationGoesOn) {
  const TemporaryFolder folder;
  // Nearly random text, which goes on for long.
  Program program(ProgramCommand({"chat", "-m", TinyModel(), "--temp", "30", "--seed", "5", "-c",
                                  "20000", "--session", folder / "s", "--session-every", "100000"}),
                  OnTerminal());
  program.AwaitOutput("> ");
  program.Type("\x03");  // nothing to stop yet
  program.AwaitOutput("^C\r\n> ");
  program.Type("hello\r");
  program.AwaitOutput("\x1b[2mtoken ");  // the live line: an answer is on its way
  program.Type("\x03");
  program.AwaitOutput("(interrupted)");
  program.AwaitOutput("in memory\r\n> ");
  program.Type("/stats\r");
  program.AwaitOutput("1 answer; ");
  program.AwaitOutput("seed 5\r\n> ");
  program.Type("\x04");
  EXPECT_EQ(program.Finish().exit_code, 0);
  const SessionInfo info = ReadSessionInfo(folder / "s");
  const SessionNote note = ReadSessionNote(info, folder / "s");
  EXPECT_EQ(note.stop_reason, "interrupted");
  EXPECT_GT(note.answer().size(), 0U);
  // The next turn costs its own tokens: all that was processed is a part of its prompt.
  ProgramOptions options;
  options.input = "go on\n";
  const ProgramResult next = RunProgram({"chat", "-m", TinyModel(), "-n", "3", "--session",
                                         folder / "s", "--stats", folder / "stats"},
                                        options);
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_EQ(Stats(folder / "stats").at("reused_tokens"), info.tokens.size());
}

TEST(ChatOnTerminal, WhatIsTypedWhileAnAnswerComesIsReadAfterIt) {
  Program program(ProgramCommand(Chat()), OnTerminal());
  program.AwaitOutput("> ");
  program.Type("What is Genesis 1:1?\r");
  program.AwaitOutput("\x1b[2mprompt: ");
  program.Type("/system later\n\x04");
  const ProgramResult result = program.Finish();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("before your next message"));
}

TEST(ChatOnTerminal, HistoryIsKeptForTheNextChatAndForNobodyElse) {
  const TemporaryFolder folder;
  for (const bool first : {true, false}) {
    Program program(ProgramCommand(Chat({"--history", folder / "h"})), OnTerminal());
    program.AwaitOutput("> ");
    program.Type(first ? "/system remembered\r" : "\x1b[A\r");
    program.AwaitOutput("before your first message\r\n> ");
    program.Type("\x04");
    EXPECT_EQ(program.Finish().exit_code, 0);
  }
  const auto permissions = std::filesystem::status(folder / "h").permissions();
  EXPECT_EQ(permissions & (std::filesystem::perms::group_all | std::filesystem::perms::others_all),
            std::filesystem::perms::none);
}

TEST(ChatSignals, SigtermSavesAndLeavesWith130) {
  const TemporaryFolder folder;
  ProgramOptions options;
  options.input = "hello\n";
  options.keep_input_open = true;
  Program program(ProgramCommand({"chat", "-m", TinyModel(), "--temp", "30", "--seed", "5", "-c",
                                  "20000", "--session", folder / "s"}),
                  options);
  program.AwaitOutput("<think>");
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Finish().exit_code, 130);
  EXPECT_GT(NoteIn(folder / "s").answer().size(), 0U);
}

}  // namespace
}  // namespace kimi_k3
