// Sessions of the run command: killed, stopped or finished, it goes on to the very same text.
#include "cli/run_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/program.h"
#include "cli/session_note.h"
#include "engine/session_file.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> With(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> SmallIds() {
  std::vector<std::string> flags = {"-m", SmallModel(), "--ignore-eos", "--prompt-chunk", "3"};
  std::string ids = "1";
  for (int i = 2; i < 40; ++i) {
    ids += ',';
    ids += std::to_string(i * 7 % 190);
  }
  return With(flags, {"--token-ids", ids, "-n", "24"});
}

std::vector<std::string> TinyChat() {
  return {"-m", TinyModel(), "-p", "What is Genesis 1:1?", "-n", "40", "--prompt-chunk", "16"};
}

std::string Out(const std::vector<std::string>& arguments, int exit_code = 0) {
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  return result.out;
}

nlohmann::json Stats(const std::string& path) { return nlohmann::json::parse(ReadFile(path)); }

// SIGKILL at any moment, fifty times: in the opening, the prompt, the answer, the saving.
TEST(KilledRun, ResumesToTheTextOfAnUninterruptedRun) {
  const std::vector<std::vector<std::string>> cases = {
      SmallIds(), With(SmallIds(), {"--temp", "1.5", "--seed", "9"}),
      With(TinyChat(), {"--temp", "1", "--seed", "4"})};
  std::mt19937 random(20260727);
  int kills = 0;
  for (size_t round = 0; kills < 50; ++round) {
    const auto& flags = cases[round % cases.size()];
    const auto start = std::chrono::steady_clock::now();
    const std::string expected = Out(flags);
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - start);
    const TemporaryFolder folder;
    const auto resumed =
        With(flags, {"--session", folder / "s", "--session-every", "2", "--resume"});
    for (;;) {
      Program program(ProgramCommand(resumed));
      usleep(static_cast<useconds_t>(random() % static_cast<uint64_t>(whole.count() * 3 / 2)));
      program.Signal(SIGKILL);
      const ProgramResult result = program.Finish();
      if (result.exit_code == 128 + SIGKILL) {
        ++kills;
        EXPECT_EQ(expected.substr(0, result.out.size()), result.out);
        if (kills % 25 != 0) continue;
        EXPECT_EQ(Out(resumed), expected);  // the rest in peace
        break;
      }
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(result.out, expected);
      break;
    }
    EXPECT_EQ(Out(resumed), expected);  // a finished answer is shown again
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_EQ(entry.path().filename(), "s") << "left behind";
    }
  }
}

TEST(StoppedRun, SavesWhereItIsAndResumes) {
  const std::string expected = Out(SmallIds());
  const TemporaryFolder folder;
  const auto flags = With(SmallIds(), {"--session", folder / "s", "--session-every", "1000"});
  auto endless = flags;
  endless[std::find(endless.begin(), endless.end(), "24") - endless.begin()] = "1000000";
  Program program(ProgramCommand(With(endless, {"-c", "1000000"})));
  program.AwaitOutput(" ");
  program.Signal(SIGINT);
  const ProgramResult stopped = program.Finish();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  const SessionInfo info = ReadSessionInfo(folder / "s");
  const SessionNote note = ReadSessionNote(info, folder / "s");
  EXPECT_EQ(note.stop_reason, "interrupted");
  EXPECT_EQ(note.text.size(), info.tokens.size() + 1) << "nothing is computed twice";
  EXPECT_GE(note.answer().size(), 1U);
  const size_t answered = note.answer().size();
  const std::string shown = Out({"-m", SmallModel(), "--session", folder / "s", "--resume", "-n",
                                 std::to_string(answered + 5), "--stats", folder / "stats"});
  EXPECT_EQ(shown.substr(0, stopped.out.size() - 1), stopped.out.substr(0, stopped.out.size() - 1));
  EXPECT_EQ(Stats(folder / "stats").at("generated_tokens"), 5);
  EXPECT_EQ(Stats(folder / "stats").at("resumed_tokens"), answered);
  EXPECT_EQ(Stats(folder / "stats").at("prompt_tokens"), 1);
}

TEST(Session, AnAnswerCutByItsLimitGoesOnWithALargerOne) {
  const TemporaryFolder folder;
  const auto flags = TinyChat();
  auto cut = flags;
  cut[std::find(cut.begin(), cut.end(), "40") - cut.begin()] = "11";
  Out(With(cut, {"--session", folder / "s"}));
  EXPECT_EQ(Out({"-m", TinyModel(), "--session", folder / "s", "--resume", "-n", "40"}),
            Out(flags));
}

TEST(Session, ACompleteAnswerIsShownAgainWithoutComputing) {
  const TemporaryFolder folder;
  for (const auto& flags :
       {std::vector<std::string>{"-m", TinyModel(), "-p", "What is Genesis 1:1?", "-n", "300"},
        {"-m", SmallModel(), "--token-ids", "1,2,3", "-n", "99", "-c", "9", "--ignore-eos"},
        {"-m", SmallModel(), "--token-ids", "1,2,3", "-n", "5", "--ignore-eos"}}) {
    std::filesystem::remove(folder / "s");
    const std::string answer = Out(With(flags, {"--session", folder / "s"}));
    EXPECT_EQ(Out({flags[0], flags[1], "--session", folder / "s", "--resume", "--stats",
                   folder / "stats"}),
              answer);
    EXPECT_EQ(Stats(folder / "stats").at("prompt").at("passes"), 0);
    EXPECT_EQ(Stats(folder / "stats").at("decode").at("passes"), 0);
  }
  // A larger context gives the second one room again.
  Out({"-m", SmallModel(), "--token-ids", "1,2,3", "-n", "99", "-c", "9", "--ignore-eos",
       "--session", folder / "t"});
  EXPECT_EQ(Out({"-m", SmallModel(), "--session", folder / "t", "--resume", "-c", "200"}),
            Out({"-m", SmallModel(), "--token-ids", "1,2,3", "-n", "99", "--ignore-eos"}));
}

TEST(Session, APromptThatIsOnlyComputedIsAnsweredLater) {
  const TemporaryFolder folder;
  for (const std::vector<std::string>& prompt :
       {std::vector<std::string>{"--token-ids", "1,2,3,4"}, {"--token-ids", "7"}}) {
    const auto flags = With({"-m", SmallModel(), "--ignore-eos"}, prompt);
    std::filesystem::remove(folder / "s");
    Out(With(flags, {"-n", "0", "--session", folder / "s"}));
    EXPECT_EQ(Out({"-m", SmallModel(), "--session", folder / "s", "--resume", "-n", "6"}),
              Out(With(flags, {"-n", "6"})));
  }
}

TEST(Session, ANewPromptCostsItsOwnTokensOnly) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {"-m",        TinyModel(),  "-n",      "60",
                                          "--session", folder / "s", "--stats", folder / "stats"};
  Out(With(flags, {"-p", "What is Genesis 1:1?"}));
  const auto first = Stats(folder / "stats");
  const size_t seen = ReadSessionInfo(folder / "s").tokens.size();
  Out(With(flags, {"-p", "And the next verse?"}));
  const auto second = Stats(folder / "stats");
  EXPECT_EQ(second.at("reused_tokens"), seen);
  EXPECT_EQ(first.at("reused_tokens"), 0);
  // The question, the tags around it, and what closes the answer before.
  EXPECT_LT(second.at("prompt_tokens"), 60);
  const SessionNote note = ReadSessionNote(ReadSessionInfo(folder / "s"), folder / "s");
  EXPECT_EQ(second.at("prompt_tokens").get<size_t>(), note.answer_begin - seen);
  EXPECT_EQ(note.messages.size(), 3U);
}

TEST(Session, ARawTextGoesOnWithMoreText) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {"-m",           TinyModel(), "-n",        "12",
                                          "--ignore-eos", "--session", folder / "s"};
  const std::string first = Out(With(flags, {"--raw", "-p", "It is"}));
  const std::string second = Out(With(flags, {"-p", " and then"}));
  const SessionNote note = ReadSessionNote(ReadSessionInfo(folder / "s"), folder / "s");
  EXPECT_EQ(note.answer().size(), 12U);
  std::string ids;
  for (size_t i = 0; i < note.answer_begin; ++i) ids += std::to_string(note.text[i]) + ",";
  ids.pop_back();
  // The same text computed from its beginning.
  std::string answer;
  for (const TokenId id : note.answer()) answer += std::to_string(id) + " ";
  answer.back() = '\n';
  EXPECT_EQ(Out({"-m", TinyModel(), "-n", "12", "--ignore-eos", "--print-ids", "--token-ids", ids}),
            answer);
  EXPECT_NE(first, second);
}

TEST(Session, IsGoneOnWithInTheContextThatItWasBegunWith) {
  const TemporaryFolder folder;
  Out(With(SmallIds(), {"--session", folder / "s", "-c", "99"}));
  Out({"-m", SmallModel(), "--session", folder / "s", "--resume", "-n", "26", "--stats",
       folder / "stats"});
  EXPECT_EQ(Stats(folder / "stats").at("context"), 99);
}

class SessionRefusal : public testing::Test {
 protected:
  void ExpectRefused(const std::vector<std::string>& arguments, int exit_code,
                     const std::string& words) {
    const std::string before = ReadFile(file_);
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_TRUE(ReadFile(file_) == before) << "the file was changed";
  }
  TemporaryFolder folder_;
  std::string file_ = folder_ / "s";
};

TEST_F(SessionRefusal, AnUnfinishedAnswerIsNotLostToANewPrompt) {
  const auto flags = With(SmallIds(), {"--session", file_});
  auto endless = flags;
  endless[std::find(endless.begin(), endless.end(), "24") - endless.begin()] = "1000000";
  Program program(ProgramCommand(With(endless, {"-c", "1000000", "--session-every", "1"})));
  program.AwaitOutput(" ");
  program.Signal(SIGKILL);
  program.Finish();
  ExpectRefused(flags, 2, "--resume");
  ExpectRefused({"-m", SmallModel(), "--session", file_}, 2, "--resume");
}

TEST_F(SessionRefusal, FlagsThatContradictWhatWasBegun) {
  Out(With(TinyChat(), {"--session", file_}));
  const std::vector<std::string> resume = {"-m", TinyModel(), "--session", file_, "--resume"};
  ExpectRefused(With(resume, {"-p", "something else"}), 2, "another prompt");
  ExpectRefused(With(resume, {"--temp", "1"}), 2, "sampling");
  ExpectRefused(With(resume, {"--stop", "x"}), 2, "--stop");
  ExpectRefused(With(resume, {"--ignore-eos"}), 2, "--ignore-eos");
  ExpectRefused(With(resume, {"--effort", "low"}), 2, "--effort");
  ExpectRefused(With(resume, {"--no-thinking"}), 2, "thinking");
  ExpectRefused(With(resume, {"--raw"}), 2, "--raw");
  ExpectRefused(With(resume, {"-c", "20"}), 2, "-c");
  const std::vector<std::string> more = {"-m", TinyModel(), "--session", file_};
  ExpectRefused(more, 2, "there already");
  ExpectRefused(With(more, {"--raw", "-p", "x"}), 2, "--raw");
  ExpectRefused(With(more, {"--token-ids", "1"}), 2, "--token-ids");
  ExpectRefused(With(more, {"-p", "x", "--system", "y"}), 2, "--system");
  ExpectRefused(With(more, {"-p", "x", "--no-thinking"}), 2, "--no-thinking");
  ExpectRefused(With(more, {"-p", "x", "--effort", "low"}), 2, "--effort");
  ExpectRefused(With(more, {"-p", "x", "--kv-cache-quant", "bf16"}), 3, "--kv-cache-quant none");
  ExpectRefused(With(more, {"-p", "x", "--state-type", "bf16"}), 3, "--state-type f32");
  ExpectRefused({"-m", SmallModel(), "--session", file_, "--resume"}, 3, "another model");
}

TEST_F(SessionRefusal, DamagedAndForeignFiles) {
  Out(With(SmallIds(), {"--session", file_}));
  const std::string good = ReadFile(file_);
  const std::vector<std::string> resume = {"-m", SmallModel(), "--session", file_, "--resume"};
  std::string bad = good;
  bad[bad.size() * 3 / 4] = static_cast<char>(bad[bad.size() * 3 / 4] ^ 1);
  std::ofstream(file_, std::ios::binary) << bad;
  ExpectRefused(resume, 5, "damaged");
  std::ofstream(file_, std::ios::binary) << good.substr(0, good.size() / 2);
  ExpectRefused(resume, 5, "damaged");
  std::ofstream(file_, std::ios::binary) << "my diary\n";
  ExpectRefused(resume, 3, "no session file");
  ExpectRefused(With(SmallIds(), {"--session", file_}), 3, "no session file");
}

TEST_F(SessionRefusal, AContextThatTheModelDoesNotHaveIsToldOfWithTheFile) {
  SessionNote note;
  note.text = {1};
  note.prompt = "1";
  note.stop_reason = "interrupted";
  const std::string text = WriteSessionNote(note, 1);
  const TokenId token = 1;
  SessionWriter writer(file_, {.model = "",
                               .part = "",
                               .kv_cache = "f32",
                               .state_type = "f32",
                               .approximations = "",
                               .fingerprint = "",
                               .context = uint64_t{1} << 62,
                               .tokens = 1,
                               .note_bytes = text.size()});
  writer.Append(std::as_bytes(std::span(text)));
  writer.Append(std::as_bytes(std::span(&token, 1)));
  writer.Commit();
  ExpectRefused({"-m", TinyModel(), "--session", file_, "--resume"}, 2,
                file_ + ": this session was begun with a context of");
}

TEST(SessionUse, NeedsAFileAndAPrompt) {
  const TemporaryFolder folder;
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& words) {
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  refused({"-m", SmallModel(), "--resume"}, "--session FILE");
  refused({"-m", SmallModel(), "--session", folder / "s", "--resume"}, "no such session");
  refused({"-m", SmallModel(), "--session", folder / "s"}, "no such session");
  refused(With(SmallIds(), {"--session", folder / "s", "--logits", folder / "l"}), "--logits");
  refused(With(SmallIds(), {"--session", folder / "s", "--stats", folder / "s"}), "same file");
  refused(With(SmallIds(), {"--session", folder / "s", "--session-every", "0"}), "below 1");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SessionUse, AFolderThatCannotBeWrittenIsFoundOutAtOnce) {
  const ProgramResult result = RunProgram(With(SmallIds(), {"--session", "/no/such/folder/s"}));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("/no/such/folder"));
  EXPECT_EQ(result.out, "");
}

TEST(SessionUse, TwoProgramsDoNotShareOne) {
  const TemporaryFolder folder;
  auto flags = With(SmallIds(), {"--session", folder / "s", "-c", "1000000"});
  flags[std::find(flags.begin(), flags.end(), "24") - flags.begin()] = "1000000";
  Program first(ProgramCommand(flags));
  first.AwaitOutput(" ");
  const ProgramResult second = RunProgram(With(flags, {"--resume"}));
  EXPECT_EQ(second.exit_code, 5);
  EXPECT_THAT(second.err, HasSubstr("another kimi_k3"));
  first.Signal(SIGINT);
  EXPECT_EQ(first.Finish().exit_code, 130);
}

TEST(SessionStats, TellWhatSavingCost) {
  const TemporaryFolder folder;
  const ProgramResult result =
      RunProgram(With(SmallIds(), {"--session", folder / "s", "--stats", folder / "stats"}));
  EXPECT_THAT(result.err, HasSubstr("session of"));
  const auto session = Stats(folder / "stats").at("session");
  // At the beginning, after each piece of the prompt but the last, with tokens 1, 9 and 17, and at
  // the end.
  EXPECT_EQ(session.at("saves"), 1 + 12 + 3 + 1);
  EXPECT_EQ(session.at("file_bytes"), std::filesystem::file_size(folder / "s"));
  EXPECT_GT(session.at("seconds"), 0);
}

}  // namespace
}  // namespace kimi_k3
