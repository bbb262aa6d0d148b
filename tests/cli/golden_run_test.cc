// The golden cases through the program: tokens and logits, under every way of computing.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "cli/npy_floats.h"
#include "cli/program.h"
#include "kernels/isa.h"
#include "model/golden_case.h"

namespace kimi_k3 {
namespace {

constexpr size_t kGreedy = 16;

std::string Joined(const std::vector<int32_t>& ids, size_t count, char separator) {
  std::string text;
  for (size_t i = 0; i < std::min(count, ids.size()); ++i) {
    if (i != 0) text += separator;
    text += std::to_string(ids[i]);
  }
  return text;
}

std::vector<std::string> Arguments(const GoldenCase& golden) {
  return {"-m",          golden.checkpoint.string(),
          "--token-ids", Joined(golden.prompt_ids, golden.prompt_ids.size(), ','),
          "--print-ids", "-n",
          "16",          "--ignore-eos",
          "--quiet"};
}

// Golden cases of values that the published model does not have are told of.
void ExpectOnlyWarnings(const std::string& err) {
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.ends_with("and every answer depends on it")) << line;
  }
}

class GoldenRun : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenRun, TokensAndLogitsAreRightAndTheSameForEveryWayOfComputing) {
  const GoldenCase golden = LoadGoldenCase(GetParam());
  const TemporaryFolder folder;
  const std::string tokens = Joined(golden.greedy_ids, kGreedy, ' ') + "\n";
  const std::string whole = std::to_string(golden.prompt_ids.size());
  std::string first;
  for (const std::string& isa : kernels::UsableIsas()) {
    for (const char* threads : {"1", "2"}) {
      for (const std::string& chunk : {std::string("1"), std::string("7"), whole}) {
        SCOPED_TRACE(isa + ", threads " + threads + ", chunk " + chunk);
        std::vector<std::string> arguments = Arguments(golden);
        for (const std::string& more :
             {std::string("--isa"), isa, std::string("-t"), std::string(threads),
              std::string("--prompt-chunk"), chunk, std::string("--logits"), folder / "l.npy"}) {
          arguments.push_back(more);
        }
        const ProgramResult result = RunProgram(arguments);
        ASSERT_EQ(result.exit_code, 0) << result.err;
        ExpectOnlyWarnings(result.err);
        EXPECT_EQ(result.out, tokens);
        const std::string file = ReadFile(folder / "l.npy");
        if (first.empty()) first = file;
        ASSERT_TRUE(file == first) << "the logits differ in some bit";
      }
    }
  }
  const size_t rows = golden.prompt_ids.size();
  const std::vector<float> logits = NpyFloats(first, rows, golden.prompt_logits.size() / rows);
  EXPECT_LE(RelativeL2(logits.data(), golden.prompt_logits.data(), logits.size()), 1e-5);
}

TEST_P(GoldenRun, ASmallBf16CacheOrStateChangesLittle) {
  const GoldenCase golden = LoadGoldenCase(GetParam());
  // A state that is rounded again and again turns some choices of experts in these random models.
  for (const auto& [flag, most] :
       {std::pair{"--kv-cache-quant", 0.05}, std::pair{"--state-type", 0.2}}) {
    const TemporaryFolder folder;
    std::vector<std::string> arguments = Arguments(golden);
    arguments.insert(arguments.end(), {flag, "bf16", "--logits", folder / "l.npy"});
    const ProgramResult result = RunProgram(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const size_t rows = golden.prompt_ids.size();
    const std::vector<float> logits =
        NpyFloats(ReadFile(folder / "l.npy"), rows, golden.prompt_logits.size() / rows);
    EXPECT_LE(RelativeL2(logits.data(), golden.prompt_logits.data(), logits.size()), most) << flag;
  }
}

std::string CaseName(const testing::TestParamInfo<std::filesystem::path>& test_case) {
  std::string name = test_case.param.filename();
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenRun, testing::ValuesIn(GoldenFolders()), CaseName);

}  // namespace
}  // namespace kimi_k3
