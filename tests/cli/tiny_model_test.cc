// The trained model through the program, in as little memory as it can run in, against what PyTorch
// computed.
#include <gtest/gtest.h>

#include "cli/npy_floats.h"
#include "cli/program.h"
#include "engine/tiny_reference.h"

namespace kimi_k3 {
namespace {

std::string Joined(std::span<const TokenId> ids, const char* separator) {
  std::string text;
  for (const TokenId id : ids) {
    if (!text.empty()) text += separator;
    text += std::to_string(id);
  }
  return text;
}

class TinyProgram : public testing::Test {
 protected:
  // Runs the model with these arguments in the least memory, so that its weights are streamed.
  std::string Run(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"-m", TinyModel(), "--memory", memory_, "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  // The least budget in which the plan holds, and 2 MB for what differs between two runs.
  static std::string LeastMemory() {
    const ProgramResult plan =
        RunProgram({"plan", "-m", TinyModel(), "--json", "--no-measure", "-c", "512"});
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    const auto bytes = nlohmann::json::parse(plan.out).at("smallest_bytes").get<uint64_t>();
    return std::to_string(bytes / 1'000'000 + 2) + "M";
  }

  const TinyReference reference_ = LoadTinyReference();
  const std::string memory_ = LeastMemory();
};

TEST_F(TinyProgram, AnswersQuestionsWordForWordWithAndWithoutThinking) {
  for (const TinyQuestion& one : reference_.questions) {
    std::vector<std::string> arguments = {"-p", one.question, "-c", "512"};
    if (!one.thinking) arguments.emplace_back("--no-thinking");
    const std::string thought =
        one.thinking ? "<think>\n" + one.thought + "\n</think>\n\n" : std::string();
    EXPECT_EQ(Run(arguments), thought + one.text + "\n") << one.question;
  }
}

TEST_F(TinyProgram, ContinuesGreedilyAsPyTorchDoes) {
  for (const TinyGreedy& greedy : reference_.greedy) {
    const std::string count = std::to_string(greedy.ids.size());
    EXPECT_EQ(Run({"--token-ids", Joined(greedy.prompt_ids, ","), "-n", count, "--print-ids",
                   "--ignore-eos", "-c", "512"}),
              Joined(greedy.ids, " ") + "\n")
        << greedy.name;
  }
}

TEST_F(TinyProgram, WritesPyTorchsLogitsOfHeldOutText) {
  const TemporaryFolder folder;
  for (const TinyExcerpt& excerpt : reference_.excerpts) {
    Run({"--token-ids", Joined(excerpt.ids, ","), "-n", "0", "--logits", folder / "l.npy", "-c",
         "512"});
    const size_t columns = reference_.vocabulary;
    const std::vector<float> all =
        NpyFloats(ReadFile(folder / "l.npy"), excerpt.ids.size(), columns);
    std::vector<float> found;
    for (const size_t position : excerpt.logit_positions) {
      const auto row = all.begin() + static_cast<ptrdiff_t>(position * columns);
      found.insert(found.end(), row, row + static_cast<ptrdiff_t>(columns));
    }
    EXPECT_LE(Distance(found, excerpt.logits), kTinyTolerance) << excerpt.name;
  }
}

// Each block of the model card that begins with "$ kimi_k3": the command, and below it what the
// program prints, where the card shows it.
TEST(TinyModelCard, ItsCommandsDoWhatItShows) {
  const std::string card = ReadFile(TinyModel() + "/README.md");
  const std::string start = "```\n$ kimi_k3 ";
  size_t blocks = 0;
  for (size_t at = card.find(start); at != std::string::npos; at = card.find(start, at)) {
    at += start.size();
    const size_t line = card.find('\n', at);
    const size_t end = card.find("```", line);
    const std::string command = card.substr(at, line - at);
    const std::string shown = card.substr(line + 1, end - line - 1);
    ProgramOptions options;
    options.folder = KIMI_K3_SOURCE_DIR;
    const ProgramResult result =
        Program({"/bin/bash", "-c", "'" KIMI_K3_PROGRAM "' " + command}, options).Finish();
    EXPECT_EQ(result.exit_code, 0) << command << result.err;
    EXPECT_GT(result.out.size(), 40U);
    if (!shown.empty()) {
      EXPECT_EQ(result.out, shown) << command;
    }
    ++blocks;
  }
  EXPECT_EQ(blocks, 2U);
}

}  // namespace
}  // namespace kimi_k3
