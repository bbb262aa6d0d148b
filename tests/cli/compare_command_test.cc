// Tests of the compare command.
#include "cli/compare_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

constexpr const char* kText = KIMI_K3_SOURCE_DIR "/tests/data/tiny/austen.txt";

nlohmann::json Compare(CompareOptions options) {
  options.engine.model_dir = TinyModel();
  options.engine.threads = 1;
  options.text_file = kText;
  options.json = true;
  options.quiet = true;
  std::ostringstream out;
  RunCompare(options, out);
  return nlohmann::json::parse(out.str());
}

TEST(CompareCommand, MeasuresEverySettingAgainstTheExactRun) {
  CompareOptions options;
  options.engine.experts_per_token = 1;
  options.others = {"--kv-cache-quant bf16",
                    "--experts-per-token 2 --kv-cache-quant bf16 --state-type bf16"};
  options.tokens = 200;
  options.decode = 4;
  const nlohmann::json report = Compare(options);
  EXPECT_EQ(report["tokens"], 200);
  const nlohmann::json& settings = report["settings"];
  ASSERT_EQ(settings.size(), 4U);
  EXPECT_EQ(settings[0]["approximations"], "");
  EXPECT_EQ(settings[1]["approximations"], "--experts-per-token 1");
  EXPECT_EQ(settings[2]["approximations"], "--kv-cache-quant bf16");
  EXPECT_EQ(settings[3]["approximations"],
            "--kv-cache-quant bf16 --state-type bf16 --experts-per-token 2");
  EXPECT_FALSE(settings[0].contains("kl_divergence"));
  const auto divergence = [&](size_t i) { return settings[i]["kl_divergence"].get<double>(); };
  EXPECT_GT(divergence(2), 0);
  EXPECT_LT(divergence(2), 1e-3);
  EXPECT_GT(divergence(1), divergence(3));
  EXPECT_GT(divergence(3), divergence(2));
  for (const nlohmann::json& setting : settings) {
    EXPECT_GT(setting["bits_per_byte"].get<double>(), 1.0);
    EXPECT_LT(setting["bits_per_byte"].get<double>(), 3.0);
    EXPECT_GT(setting["tokens_per_second"].get<double>(), 0);
  }
}

// The text is cut into windows of the context's length, each begun anew; so more context is better.
TEST(CompareCommand, ReadsATextThatIsLongerThanTheContextInWindows) {
  CompareOptions options;
  options.others = {"--kv-cache-quant bf16"};
  options.tokens = 300;
  options.decode = 0;
  const double whole = Compare(options)["settings"][0]["bits_per_byte"];
  options.engine.context = 20;
  const nlohmann::json cut = Compare(options);
  EXPECT_EQ(cut["window"], 20);
  EXPECT_EQ(cut["tokens"], 300);
  EXPECT_GT(cut["settings"][0]["bits_per_byte"].get<double>(), whole);
  EXPECT_FALSE(cut["settings"][0].contains("tokens_per_second"));
}

TEST(CompareCommand, BudgetsAndThreadsChangeNoFigureOfQuality) {
  CompareOptions options;
  options.engine.experts_per_token = 2;
  options.tokens = 60;
  options.decode = 0;
  const nlohmann::json report = Compare(options);
  options.engine.memory_bytes = 60'000'000;
  options.engine.prompt_chunk = 7;
  EXPECT_EQ(Compare(options), report);
}

TEST(CompareCommand, SaysWhatItNeeds) {
  const auto refusal = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compare");
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(refusal({"-f", kText}), HasSubstr("-m DIR"));
  EXPECT_THAT(refusal({"-m", TinyModel()}), HasSubstr("-f FILE"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", kText}), HasSubstr("--experts-per-token 8"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", kText, "--with", ""}), HasSubstr("exact model"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", kText, "--with", "--memory 8G"}),
              HasSubstr("--with \"--memory 8G\""));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", kText, "--with", "--temp 1"}),
              HasSubstr("--with takes --kv-cache-quant"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", kText, "--with", "--kv-cache-quant q3"}),
              HasSubstr("q3"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", kText, "--experts-per-token", "99"}),
              HasSubstr("fewer can be asked for"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-f", "/dev/null", "--experts-per-token", "1"}),
              HasSubstr("two tokens"));
}

TEST(CompareCommand, AnOpenQuotationMarkIsToldOfWithTheText) {
  for (const std::string flags : {"--overlay \"a b", "--overlay 'a", "\"--state-type\" \"bf16"}) {
    const ProgramResult result =
        RunProgram({"compare", "-m", TinyModel(), "-f", kText, "--with", flags});
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_THAT(result.err, HasSubstr("--with \"" + flags + "\": a quotation mark is opened"));
  }
  EXPECT_EQ(RunProgram({"compare", "-m", TinyModel(), "-f", kText, "--tokens", "9", "-n", "0", "-q",
                        "--with", "'--state-type' \"bf16\""})
                .exit_code,
            0);
}

TEST(CompareCommand, ATextThatIsNoUtf8IsReadWithAWarning) {
  const TemporaryFolder folder;
  std::ofstream(folder / "text") << "It is a truth\xff universally acknowledged";
  const std::vector<std::string> arguments = {
      "compare", "-m", TinyModel(), "-f", folder / "text", "-n", "0", "--experts-per-token", "1"};
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr((folder / "text") + ": is not valid UTF-8"));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("tokens/s"))) << "no speed was measured";
}

TEST(CompareCommand, PrintsATableAndNamesTheScratchFolderThatIsNotThere) {
  const std::vector<std::string> arguments = {
      "compare", "-m", TinyModel(),           "-f", kText, "--tokens", "50", "-n",
      "2",       "-q", "--experts-per-token", "1"};
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("50 tokens in windows of 2048"));
  EXPECT_THAT(result.out, HasSubstr("\nexact "));
  EXPECT_THAT(result.out, HasSubstr("\n--experts-per-token 1 "));
  std::vector<std::string> elsewhere = arguments;
  elsewhere.insert(elsewhere.end(), {"--scratch", "/no/such/folder"});
  const ProgramResult refused = RunProgram(elsewhere);
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_THAT(refused.err, HasSubstr("/no/such/folder"));
}

TEST(CompareCommand, IsStoppedByASignal) {
  std::vector<std::string> arguments = {
      KIMI_K3_PROGRAM,    "compare", "-m", TinyModel(), "-f", kText,
      "--tokens",         "2000",    "-n", "60000",     "-c", "65000",
      "--kv-cache-quant", "bf16"};
  Program program(arguments);
  program.AwaitError("kimi_k3, ");
  program.Signal(SIGINT);
  EXPECT_EQ(program.Finish().exit_code, 130);
}

}  // namespace
}  // namespace kimi_k3
