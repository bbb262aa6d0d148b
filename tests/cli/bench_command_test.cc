// Tests of the bench command, through the program.
#include "cli/bench_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(BenchCommand, MeasuresEveryBudgetAndPromptAndDrawsTheReport) {
  const TemporaryFolder folder;
  const ProgramResult run =
      RunProgram({"bench", "-m", TinyModel(), "--memory", "40M,200M", "--prompts", "1,5", "-n", "2",
                  "--json", folder / "bench.json", "--svg", folder / "bench.svg"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("compute waited"));
  EXPECT_THAT(run.err, HasSubstr("budget 40.0 MB"));
  const auto report = nlohmann::json::parse(ReadFile(folder / "bench.json"));
  ASSERT_EQ(report["runs"].size(), 2U);
  EXPECT_EQ(report["runs"][0]["memory_budget_bytes"], 40000000);
  EXPECT_EQ(report["runs"][1]["prompts"].size(), 2U);
  EXPECT_LE(report["runs"][1]["bytes_per_token"], report["runs"][0]["bytes_per_token"]);
  const std::string svg = ReadFile(folder / "bench.svg");
  EXPECT_THAT(svg, HasSubstr("<svg"));

  const ProgramResult again =
      RunProgram({"bench", "--from", folder / "bench.json", "--svg", folder / "again.svg"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, run.out);
  EXPECT_EQ(ReadFile(folder / "again.svg"), svg);
}

TEST(BenchCommand, TakesApproximationsAndNamesThem) {
  const TemporaryFolder folder;
  const auto measured = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"bench", "-m",        TinyModel(), "--memory",
                                          "36M",   "--prompts", "1",         "-n",
                                          "2",     "-q",        "--json",    folder / "bench.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult run = RunProgram(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return std::pair(run.out, nlohmann::json::parse(ReadFile(folder / "bench.json")));
  };
  const auto [exact_table, exact] = measured({});
  EXPECT_FALSE(exact.contains("approximations"));
  const auto [table, report] =
      measured({"--experts-per-token", "1", "--kv-cache-quant", "q8", "--state-type", "bf16"});
  const std::string flags = "--kv-cache-quant q8 --state-type bf16 --experts-per-token 1";
  EXPECT_EQ(report["approximations"], flags);
  EXPECT_THAT(table, HasSubstr("not the exact answers: " + flags));
  EXPECT_LT(report["runs"][0]["bytes_per_token"], exact["runs"][0]["bytes_per_token"]);
}

TEST(BenchCommand, RefusesWhatMakesNoSense) {
  for (const auto& [arguments, word] :
       {std::pair{std::vector<std::string>{"bench"}, "-m DIR"},
        std::pair{std::vector<std::string>{"bench", "-m", TinyModel(), "--from", "x"}, "-m DIR"},
        std::pair{std::vector<std::string>{"bench", "-m", TinyModel(), "--prompts", "1,x"},
                  "--prompts"},
        std::pair{std::vector<std::string>{"bench", "-m", TinyModel(), "--memory", "1G,,2G"},
                  "not a size"}}) {
    const ProgramResult run = RunProgram(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(word));
  }
  const TemporaryFolder folder;
  EXPECT_EQ(RunProgram({"bench", "--from", TinyModel() + "/config.json"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"bench", "--from", folder / "absent.json"}).exit_code, 5);
  EXPECT_EQ(RunProgram({"bench", "--from", "x", "--state-type", "bf16"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"bench", "-m", TinyModel(), "--memory", "1M"}).exit_code, 4);
}

}  // namespace
}  // namespace kimi_k3
