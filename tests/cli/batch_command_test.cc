// The batch command as its users run it: killed, interrupted, on a full disk, beside another.
#include "cli/batch_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/batch_files.h"
#include "cli/program.h"
#include "engine/state_file.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class BatchCommand : public testing::Test {
 protected:
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"batch", in_, "-o",         out_, "-m", TinyModel(),
                                          "-t",    "1", "--parallel", "4",  "-c", "512"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  ProgramResult Run(std::vector<std::string> more = {}) const {
    return RunProgram(Arguments(more));
  }

  // Requests of every kind, greedy and drawn.
  static std::string Requests(size_t count, size_t tokens) {
    std::string requests;
    for (size_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("r{}", i);
      if (i % 5 == 4) {
        requests += R"({"custom_id": ")" + name +
                    R"(", "method": "POST", "url": "/v1/score", "body": {"text": "It is a truth"}})"
                    "\n";
        continue;
      }
      Json body = {{"prompt", std::string("And the LORD said unto ").substr(0, 4 + i % 19)},
                   {"max_tokens", tokens + i % 7},
                   {"ignore_eos", true}};
      if (i % 2 == 0) body["temperature"] = 0;
      requests += TextLine(name, body.dump());
    }
    return requests;
  }

  // The results in the order of their text: all of a whole job, and none of them twice.
  static std::vector<std::string> Sorted(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  }
  // Of an uninterrupted run.
  std::vector<std::string> Expected() const {
    const std::string other = folder_ / "expected.jsonl";
    std::vector<std::string> arguments = Arguments();
    arguments[3] = other;
    EXPECT_EQ(RunProgram(arguments).exit_code, 0);
    return Sorted(ReadFile(other));
  }

  TemporaryFolder folder_;
  const std::string in_ = folder_ / "in.jsonl";
  const std::string out_ = folder_ / "out.jsonl";
};

TEST_F(BatchCommand, AnswersAsARunDoes) {
  WriteText(in_,
            TextLine("seeded", R"({"prompt": "It is", "temperature": 0.8, "top_p": 0.9,)"
                               R"( "seed": 3, "max_tokens": 20})") +
                R"({"custom_id": "chat", "method": "POST", "url": "/v1/chat/completions",)"
                R"( "body": {"messages": [{"role": "user", "content": "What is Genesis 1:1?"}],)"
                R"( "temperature": 0}})"
                "\n");
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("2 requests: 2 done now, 0 before, 0 refused"));
  for (const std::string& line : Sorted(ReadFile(out_))) {
    const Json answer = Json::parse(line);
    const Json& choice = answer["response"]["body"]["choices"][0];
    if (answer["custom_id"] == "chat") {
      EXPECT_EQ(choice["message"]["content"],
                "In the beginning God created the heaven and the earth.");
      continue;
    }
    const ProgramResult alone =
        RunProgram({"-m", TinyModel(), "--raw", "-p", "It is", "-n", "20", "--temp", "0.8",
                    "--top-p", "0.9", "--seed", "3", "-q"});
    EXPECT_EQ(choice["text"].get<std::string>() + "\n", alone.out);
  }
  EXPECT_FALSE(std::filesystem::exists(out_ + ".begun"));
}

TEST_F(BatchCommand, KilledAtAnyMomentItLosesNothingAndDoesNothingTwice) {
  WriteText(in_, Requests(24, 60));
  const std::vector<std::string> expected = Expected();
  std::mt19937 random(11);
  for (int killed = 0; killed < 5; ++killed) {
    Program program(ProgramCommand(Arguments()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 300));
    program.Signal(SIGKILL);
    program.Finish();
    if (!std::filesystem::exists(out_)) continue;
    // Whatever is there is whole but for a last line, and part of what is expected.
    const std::string text = ReadFile(out_);
    for (const std::string& line : Sorted(text.substr(0, text.rfind('\n') + 1))) {
      EXPECT_TRUE(std::ranges::binary_search(expected, line)) << line;
    }
  }
  // As if power had gone in the middle of a write.
  WriteText(out_, ReadFile(out_) + R"({"id":"batch_req_12)");
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cut off"));
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
  EXPECT_FALSE(std::filesystem::exists(out_ + ".begun"));
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
}

TEST_F(BatchCommand, InterruptedItStopsInOrderAndGoesOnWithWhatWasBegun) {
  WriteText(in_, Requests(9, 300));
  const std::vector<std::string> expected = Expected();
  Program program(ProgramCommand(Arguments()));
  program.AwaitError("9 requests to go");
  // Until something is known to be begun, or all is done.
  const auto begun = [&] {
    return std::filesystem::exists(out_ + ".begun") &&
           ReadFile(out_ + ".begun").find("tokens") != std::string::npos;
  };
  while (Sorted(ReadFile(out_)).size() < 9 && !begun()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  program.Signal(SIGINT);
  const ProgramResult stopped = program.Finish();
  if (stopped.exit_code != 0) {  // it may have been done by then
    EXPECT_EQ(stopped.exit_code, 130);
    EXPECT_THAT(stopped.err, HasSubstr("the same command goes on"));
    EXPECT_TRUE(std::filesystem::exists(out_ + ".begun"));
  }
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
}

TEST_F(BatchCommand, OnAFullDiskItKeepsWhatIsWholeAndGoesOnLater) {
  WriteText(in_, Requests(20, 3));
  const std::vector<std::string> expected = Expected();
  std::string command = "ulimit -f 8; exec";
  for (const std::string& word : ProgramCommand(Arguments())) command += " '" + word + "'";
  const ProgramResult full = Program({"/bin/bash", "-c", command}).Finish();
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_THAT(full.err, HasSubstr("out.jsonl"));
  const std::string text = ReadFile(out_);
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_LE(text.size(), 8192U);
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
}

class BatchStates : public BatchCommand {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(states_);
    if (StateFile::LiesInMemory(states_)) GTEST_SKIP() << "no drive for temporary files";
    WriteText(in_, Requests(12, 40));
  }
  // Contexts so long that 240 MB have no room for four.
  std::vector<std::string> Long(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = Arguments(more);
    arguments[11] = "65536";
    return arguments;
  }
  std::vector<std::string> Scarce() const {
    return Long({"--memory", "240M", "--state-dir", states_});
  }
  const std::string states_ = folder_ / "states";
};

TEST_F(BatchStates, OnDiskGiveTheSameResultsAndWhatWasWrittenIsTold) {
  ASSERT_EQ(RunProgram(Long()).exit_code, 0);
  const std::vector<std::string> expected = Sorted(ReadFile(out_));
  std::filesystem::remove(out_);
  std::vector<std::string> arguments = Scarce();
  arguments.insert(arguments.end(), {"--stats", folder_ / "stats.json"});
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json stats = Json::parse(ReadFile(folder_ / "stats.json"));
  EXPECT_GT(stats["states"]["on_disk"], 0);
  EXPECT_GT(stats["states"]["bytes_written"], 0);
  EXPECT_LE(stats["peak_resident_bytes"], 240000000);
  EXPECT_THAT(result.err, HasSubstr("live in " + states_));
  EXPECT_THAT(result.err, HasSubstr("states on disk: read "));
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
  EXPECT_TRUE(std::filesystem::is_empty(states_));
}

TEST_F(BatchStates, LeaveNothingBehindWhenKilledAndTheJobGoesOn) {
  ASSERT_EQ(RunProgram(Long()).exit_code, 0);
  const std::vector<std::string> expected = Sorted(ReadFile(out_));
  std::filesystem::remove(out_);
  std::mt19937 random(3);
  for (int killed = 0; killed < 3; ++killed) {
    Program program(ProgramCommand(Scarce()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 400));
    program.Signal(SIGKILL);
    program.Finish();
    EXPECT_TRUE(std::filesystem::is_empty(states_));
  }
  const ProgramResult result = RunProgram(Scarce());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
}

TEST_F(BatchStates, ThatHaveNoRoomOnTheDriveEndTheRunAtOnce) {
  std::string command = "ulimit -f 1000; exec";
  for (const std::string& word : ProgramCommand(Scarce())) command += " '" + word + "'";
  const ProgramResult full = Program({"/bin/bash", "-c", command}).Finish();
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_THAT(full.err, HasSubstr(states_ + ": has no room for the states of"));
  EXPECT_FALSE(std::filesystem::exists(out_)) << "an empty file was left behind";
  EXPECT_EQ(Run({"--state-dir", states_ + "none"}).exit_code, 5);
}

TEST_F(BatchCommand, ResultsOfSomethingElseAreRefused) {
  WriteText(in_, Requests(2, 2));
  ASSERT_EQ(Run().exit_code, 0);
  const std::string text = ReadFile(out_);
  for (const std::vector<std::string>& other : {std::vector<std::string>{"--temp", "0.5"},
                                                {"--seed", "1"},
                                                {"--kv-cache-quant", "bf16"},
                                                {"--state-type", "bf16"}}) {
    const ProgramResult result = Run(other);
    EXPECT_EQ(result.exit_code, 2) << other[0];
    EXPECT_THAT(result.err, HasSubstr("other flags"));
  }
  WriteText(in_, TextLine("other", R"({"prompt": "a"})"));
  EXPECT_THAT(Run().err, HasSubstr("does not ask"));
  EXPECT_EQ(ReadFile(out_), text);
  // Other machinery gives the same answers.
  WriteText(in_, Requests(2, 2));
  EXPECT_EQ(Run({"--memory", "200M", "--io", "buffered", "--prompt-chunk", "3"}).exit_code, 0);
}

TEST_F(BatchCommand, WhereAnUnfinishedJobIsGivenOtherFlagsTheyAreNamed) {
  std::string command = "ulimit -f 1; exec";
  WriteText(in_, Requests(30, 2));
  for (const std::string& word : ProgramCommand(Arguments())) command += " '" + word + "'";
  ASSERT_EQ(Program({"/bin/bash", "-c", command}).Finish().exit_code, 5);
  ASSERT_NE(ReadFile(out_), "");
  const ProgramResult result = Run({"--temp", "0.5", "--state-type", "bf16"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--state-type not given then, bf16 now; --temp 1 then, 0.5 now"));
  std::string text = ReadFile(in_);
  for (size_t at = 0; (at = text.find("And", at)) != std::string::npos;) text.replace(at, 3, "But");
  WriteText(in_, text);
  EXPECT_THAT(Run().err, HasSubstr("has another request of that name now"));
}

TEST_F(BatchCommand, ARefusedRequestThatIsTakenOutHoldsUpNothing) {
  const std::string right = Requests(3, 2);
  WriteText(in_, TextLine("wrong", R"({"prompt": "a", "n": 3})") + right);
  const ProgramResult first = Run();
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_THAT(first.err, HasSubstr("4 requests: 3 done now, 0 before, 1 refused"));
  WriteText(in_, right);
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("removed 1 line that said why a request was refused"));
  EXPECT_EQ(Sorted(ReadFile(out_)).size(), 3U);
}

TEST_F(BatchCommand, LeavesNoEmptyResultsBehindWhereItIsRefused) {
  WriteText(in_, Requests(2, 2));
  EXPECT_EQ(Run({"--memory", "1M"}).exit_code, 4);
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_FALSE(std::filesystem::exists(out_ + ".begun"));
  WriteText(out_, "");
  EXPECT_EQ(Run({"--memory", "1M"}).exit_code, 4);
  EXPECT_TRUE(std::filesystem::exists(out_)) << "it was there before";
}

TEST_F(BatchCommand, ABrokenLineIsToldOfByItsNumberAndInTheExitCode) {
  WriteText(in_, Requests(1, 2) + "\nnot json\n" + Requests(1, 2));
  for (int run = 0; run < 2; ++run) {
    const ProgramResult result = Run();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("2 of 3 requests could not be answered"));
    EXPECT_EQ(result.err.find("line 3: is not valid JSON") != std::string::npos, run == 0)
        << result.err;
    EXPECT_EQ(Sorted(ReadFile(out_)).size(), 3U);
  }
}

TEST_F(BatchCommand, WhatWasRefusedIsDoneOnceItIsCorrectedHoweverOftenItIsKilled) {
  const std::string right = Requests(12, 30);
  std::string wrong = right;
  for (const char* number : {"\"r1\"", "\"r6\"", "\"r7\""}) {
    const std::string_view field = "\"ignore_eos\":true";
    wrong.replace(wrong.find(field, wrong.find(number)), field.size(), "\"n\":3");
  }
  wrong.insert(wrong.find('\n') + 1, "no request\n");
  WriteText(in_, right);
  const std::vector<std::string> expected = Expected();
  const auto changed = std::filesystem::last_write_time(in_);
  WriteText(in_, wrong);
  std::filesystem::last_write_time(in_, changed);
  const ProgramResult refused = Run();
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("4 of 13 requests could not be answered"));
  WriteText(in_, right);
  std::filesystem::last_write_time(in_, changed);
  std::mt19937 random(5);
  for (int killed = 0; killed < 4; ++killed) {
    Program program(ProgramCommand(Arguments()));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    program.Signal(SIGKILL);
    program.Finish();
  }
  const ProgramResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Sorted(ReadFile(out_)), expected);
}

TEST_F(BatchCommand, TwoAtOnceAreRefused) {
  WriteText(in_, Requests(4, 100));
  Program first(ProgramCommand(Arguments()));
  first.AwaitError("to go");
  const ProgramResult second = Run();
  EXPECT_EQ(second.exit_code, 5);
  EXPECT_THAT(second.err, HasSubstr("another kimi_k3"));
  EXPECT_EQ(first.Finish().exit_code, 0);
}

TEST_F(BatchCommand, StatisticsSayWhatItCostHoweverItEnded) {
  WriteText(in_, Requests(5, 10) + "no request\n");
  EXPECT_EQ(Run({"--stats", folder_ / "stats.json"}).exit_code, 1);
  Json stats = Json::parse(ReadFile(folder_ / "stats.json"));
  EXPECT_EQ(stats["stop_reason"], "done");
  EXPECT_EQ(stats["sequences"], 4);
  EXPECT_EQ(stats["requests"], 6);
  EXPECT_EQ(stats["done"], 6);
  EXPECT_EQ(stats["unanswered"], 1);
  EXPECT_GE(stats["generated_tokens"], 40);
  EXPECT_GT(stats["scored_tokens"], 0);
  EXPECT_GT(stats["median_pass_seconds"], 0.0);
  EXPECT_LT(stats["median_pass_seconds"], stats["seconds"]);
  EXPECT_GT(stats["bytes_read"]["total"], 0);
  EXPECT_FALSE(stats.contains("states"));
  WriteText(in_, Requests(50, 10));
  std::filesystem::remove(out_);
  std::string command = "ulimit -f 8; exec";
  for (const std::string& word : ProgramCommand(Arguments({"--stats", folder_ / "stats.json"}))) {
    command += " '" + word + "'";
  }
  EXPECT_EQ(Program({"/bin/bash", "-c", command}).Finish().exit_code, 5);
  stats = Json::parse(ReadFile(folder_ / "stats.json"));
  EXPECT_EQ(stats["stop_reason"], "failed");
  EXPECT_LT(stats["done"], 50);
  EXPECT_THAT(stats["error"].get<std::string>(), HasSubstr("out.jsonl"));
}

TEST_F(BatchCommand, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(RunProgram({"batch"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"batch", "-m", TinyModel(), "-o", out_}).exit_code, 2);
  WriteText(in_, "");
  EXPECT_EQ(RunProgram({"batch", "-m", TinyModel(), in_}).exit_code, 2);
  EXPECT_EQ(RunProgram({"batch", "-m", TinyModel(), in_, "-o", in_}).exit_code, 2);
  const ProgramResult piped = RunProgram({"batch", "-m", TinyModel(), "-", "-o", out_});
  EXPECT_EQ(piped.exit_code, 2);
  EXPECT_THAT(piped.err, HasSubstr("write them to a file"));
  EXPECT_EQ(Run({"--temp", "-1"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"batch", "-m", TinyModel(), in_ + "none", "-o", out_}).exit_code, 5);
  const ProgramResult empty = Run();
  EXPECT_EQ(empty.exit_code, 0) << empty.err;
  EXPECT_THAT(empty.err, HasSubstr(in_ + ": has no request"));
  EXPECT_EQ(ReadFile(out_), "");
}

TEST_F(BatchCommand, ShowsWhereItStandsOnATerminal) {
  WriteText(in_, Requests(12, 100));
  ProgramOptions options;
  options.streams = Streams::kErrorTerminal;
  options.columns = 200;
  std::vector<std::string> arguments = Arguments();
  arguments[9] = "2";
  const ProgramResult result = RunProgram(arguments, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("of 12 requests done, "));
  EXPECT_THAT(result.err, HasSubstr("tokens/s, "));
}

}  // namespace
}  // namespace kimi_k3
