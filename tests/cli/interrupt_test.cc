// Ctrl-C and SIGTERM at every stage of a run.
#include "cli/interrupt.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

double SecondsToFinish(Program& program, ProgramResult& result) {
  const auto start = std::chrono::steady_clock::now();
  result = program.Finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A run that goes on far longer than any test, and writes its statistics.
std::vector<std::string> EndlessDecode(const TemporaryFolder& folder) {
  return ProgramCommand({"-m", SmallModel(), "--token-ids", "1", "-n", "1000000", "-c", "1000000",
                         "--ignore-eos", "--stats", folder / "s.json"});
}

// A prompt that takes far longer than any test.
std::vector<std::string> EndlessPrompt(const TemporaryFolder& folder) {
  std::ofstream file(folder / "prompt");
  for (int i = 0; i < 40000; ++i) file << "a truth universally acknowledged ";
  file.close();
  return ProgramCommand({"-m", TinyModel(), "--raw", "-f", folder / "prompt", "-c", "1048576",
                         "--prompt-chunk", "64", "--stats", folder / "s.json", "--logits",
                         folder / "l.npy"});
}

nlohmann::json Stats(const TemporaryFolder& folder) {
  return nlohmann::json::parse(ReadFile(folder / "s.json"));
}

class Signals : public testing::TestWithParam<int> {};

TEST_P(Signals, InDecodeEndTheRunCleanly) {
  const TemporaryFolder folder;
  Program program(EndlessDecode(folder));
  program.AwaitOutput("193 107 ");
  program.Signal(GetParam());
  ProgramResult result;
  EXPECT_LT(SecondsToFinish(program, result), 5.0);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.out, EndsWith("\n"));
  EXPECT_THAT(result.err, HasSubstr("(interrupted)"));
  const auto stats = Stats(folder);
  EXPECT_EQ(stats.at("stop_reason"), "interrupted");
  EXPECT_EQ(stats.at("prompt").at("tokens"), 1);
  const auto shown = std::count(result.out.begin(), result.out.end(), ' ') + 1;
  EXPECT_EQ(stats.at("generated_tokens"), shown);
  EXPECT_GE(stats.at("decode").at("tokens"), shown - 1);
}

TEST_P(Signals, InThePromptEndTheRunCleanly) {
  const TemporaryFolder folder;
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  Program program(EndlessPrompt(folder), options);
  // 128, 192, 1024 ...: at least one piece of 64 is through.
  program.AwaitError("prompt: 1");
  program.Signal(GetParam());
  ProgramResult result;
  EXPECT_LT(SecondsToFinish(program, result), 5.0);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out, "");
  const auto stats = Stats(folder);
  EXPECT_EQ(stats.at("stop_reason"), "interrupted");
  EXPECT_EQ(stats.at("generated_tokens"), 0);
  EXPECT_GT(stats.at("prompt_tokens"), 100000);
  EXPECT_GE(stats.at("prompt").at("tokens"), 64);
  EXPECT_LT(stats.at("prompt").at("tokens"), stats.at("prompt_tokens"));
  EXPECT_GT(stats.at("prompt").at("seconds"), 0.0);
  EXPECT_EQ(stats.at("decode").at("tokens"), 0);
  EXPECT_EQ(stats.at("decode").at("seconds"), 0.0);
  // Half a file of logits is none.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_THAT((std::vector<std::string>{"prompt", "s.json"}),
                testing::Contains(entry.path().filename().string()));
  }
}

TEST_P(Signals, WhileThePromptIsTypedEndTheRun) {
  ProgramOptions options;
  options.input = "It is";
  options.keep_input_open = true;
  Program program(ProgramCommand({"-m", TinyModel(), "-f", "-", "--top-k", "3"}), options);
  program.AwaitError("no effect");
  program.Signal(GetParam());
  ProgramResult result;
  EXPECT_LT(SecondsToFinish(program, result), 5.0);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out, "");
}

TEST_P(Signals, WhileAPipeHasNoWriterEndTheRun) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  Program program(ProgramCommand({"-m", TinyModel(), "-f", folder / "pipe", "--top-k", "3"}));
  program.AwaitError("no effect");
  program.Signal(GetParam());
  ProgramResult result;
  EXPECT_LT(SecondsToFinish(program, result), 5.0);
  EXPECT_EQ(result.exit_code, 130);
}

INSTANTIATE_TEST_SUITE_P(All, Signals, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const testing::TestParamInfo<int>& number) {
                           return std::string(sigabbrev_np(number.param));
                         });

TEST(Interrupt, ASecondSignalOfAnyKindKills) {
  // The program waits in a write to a full pipe, where the first signal can change nothing.
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const UniqueFd pipe(open((folder / "pipe").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  const std::string block(4096, 'x');
  while (write(pipe.get(), block.data(), block.size()) > 0) continue;
  ProgramOptions options;
  options.output_file = folder / "pipe";
  Program program(EndlessDecode(folder), options);
  program.AwaitError("printing token ids");
  program.AwaitBlockedWrite();
  program.Signal(SIGINT);
  program.AwaitHandler(SIGTERM, false);
  program.Signal(SIGTERM);
  ProgramResult result;
  EXPECT_LT(SecondsToFinish(program, result), 5.0);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
}

TEST(Interrupt, CtrlCOnTheTerminalEndsTheRunWithWhatWasGenerated) {
  const TemporaryFolder folder;
  ProgramOptions options;
  options.streams = Streams::kTerminal;
  Program program(EndlessDecode(folder), options);
  program.AwaitOutput("193 107 ");
  program.Type("\x03");
  ProgramResult result;
  EXPECT_LT(SecondsToFinish(program, result), 5.0);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.out, HasSubstr("(interrupted)"));
  EXPECT_EQ(Stats(folder).at("stop_reason"), "interrupted");
}

TEST(Interrupt, AnIgnoredSignalStaysIgnored) {
  const TemporaryFolder folder;
  Program program({"/bin/sh", "-c",
                   "trap '' INT HUP; exec " KIMI_K3_PROGRAM " -m " + SmallModel() +
                       " --token-ids 1 -n 1000000 -c 1000000 --ignore-eos"});
  program.AwaitOutput("193 107 ");
  program.Signal(SIGINT);
  program.Signal(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Finish().exit_code, 130) << "SIGTERM was the first that counted";
}

TEST(Interrupt, TheWishIsKnownAndEndsWithItsGuard) {
  {
    const InterruptGuard guard;
    EXPECT_FALSE(InterruptGuard::Requested());
    InterruptGuard::Check();
    raise(SIGTERM);
    EXPECT_TRUE(InterruptGuard::Requested());
    EXPECT_THROW(InterruptGuard::Check(), Error);
  }
  const InterruptGuard next;
  EXPECT_FALSE(InterruptGuard::Requested());
}

}  // namespace
}  // namespace kimi_k3
