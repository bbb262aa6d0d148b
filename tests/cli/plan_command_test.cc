// Tests of the plan command.
#include "cli/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/batch_files.h"
#include "cli/program.h"
#include "engine/state_file.h"

namespace kimi_k3 {
namespace {

PlanOptions OptionsFor(const char* golden) {
  PlanOptions options;
  options.engine.model_dir =
      std::filesystem::path(KIMI_K3_SOURCE_DIR) / "tests/data/golden" / golden / "checkpoint";
  options.engine.context = 64;
  options.engine.threads = 1;
  options.engine.memory_bytes = 200000000;
  return options;
}

TEST(PlanCommand, WritesATableThatAddsUp) {
  PlanOptions options = OptionsFor("k3");
  options.no_measure = true;
  std::ostringstream out;
  RunPlan(options, out);
  for (const char* word : {"small vectors", "state and latent cache", "tile ring", "expert slots",
                           "pinned matrices", "expert cache", "in all", "read per token"}) {
    EXPECT_THAT(out.str(), testing::HasSubstr(word));
  }
  EXPECT_THAT(out.str(), testing::Not(testing::HasSubstr("expected:")));
}

TEST(PlanCommand, WritesJsonWithMeasurements) {
  PlanOptions options = OptionsFor("k3");
  options.json = true;
  std::ostringstream out;
  RunPlan(options, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["budget_bytes"], 200000000);
  EXPECT_EQ(json["budget_source"], "--memory");
  uint64_t sum = 0;
  for (const auto& item : json["items"]) sum += item["bytes"].get<uint64_t>();
  EXPECT_EQ(json["total_bytes"], sum);
  EXPECT_LE(sum, 200000000U);
  EXPECT_GT(json["drive"]["bytes_per_second"].get<double>(), 0.0);
  EXPECT_GT(json["seconds_per_token"].get<double>(), 0.0);
  EXPECT_GE(json["prompt"]["seconds"].get<double>(), json["seconds_per_token"].get<double>());
}

TEST(PlanCommand, SaysWhatStatesOnDiskTakeAndHowMuchIsMoved) {
  PlanOptions options = OptionsFor("k3");
  const TemporaryFolder folder;
  if (StateFile::LiesInMemory(folder.path())) GTEST_SKIP() << "no drive for temporary files";
  options.engine.context = 1 << 16;
  options.engine.state_dir = folder.path();
  options.batch = 64;
  options.no_measure = true;
  options.json = true;
  std::ostringstream out;
  RunPlan(options, out);
  const auto json = nlohmann::json::parse(out.str());
  const auto& one = json["batch"]["choices"].front();
  EXPECT_EQ(one["sequences_in_memory"], 1);
  EXPECT_EQ(one["state_dir_bytes"], 0);
  EXPECT_EQ(one["states_written_per_pass"], 0);
  size_t on_disk = 0;
  for (const auto& choice : json["batch"]["choices"]) {
    const size_t now =
        choice["sequences"].get<size_t>() - choice["sequences_in_memory"].get<size_t>();
    EXPECT_GE(now, on_disk);
    on_disk = now;
    EXPECT_EQ(choice["states_written_per_pass"].get<uint64_t>() > 0, on_disk > 0);
    EXPECT_LE(choice["states_read_per_pass"], choice["bytes_per_pass"]);
    EXPECT_LE(choice["memory_bytes"], 200000000);
  }
  EXPECT_GT(on_disk, 0U);
  EXPECT_GT(json["batch"]["state_dir_free_bytes"], 0);
  options.json = false;
  RunPlan(options, out);
  EXPECT_THAT(out.str(), testing::HasSubstr("wrote a token"));
}

TEST(PlanCommand, SaysWhatBatchesCostAndHowManyToRunAtOnce) {
  PlanOptions options = OptionsFor("k3");
  options.batch = 6;
  options.json = true;
  std::ostringstream out;
  RunPlan(options, out);
  const auto batch = nlohmann::json::parse(out.str())["batch"];
  ASSERT_EQ(batch["choices"].size(), 4U);
  EXPECT_EQ(batch["choices"][3]["sequences"], 6);
  EXPECT_EQ(batch["recommended"], 6);
  for (const auto& choice : batch["choices"]) {
    EXPECT_GT(choice["tokens_per_second"].get<double>(), 0.0);
    EXPECT_LE(choice["memory_bytes"].get<uint64_t>(), 200000000U);
  }
  options.json = false;
  options.no_measure = true;
  std::ostringstream table;
  RunPlan(options, table);
  EXPECT_THAT(table.str(), testing::HasSubstr("recommended: 6"));
  EXPECT_THAT(table.str(), testing::Not(testing::HasSubstr("tokens/s")));
}

TEST(PlanCommand, TheBudgetThatItNamesForABatchIsEnoughForIt) {
  const TemporaryFolder folder;
  const std::string in = folder / "in.jsonl";
  const std::vector<std::string> shared = {"-m", TinyModel(), "-c", "512", "-t", "1"};
  const auto run = [&](std::vector<std::string> arguments, const std::string& memory) {
    arguments.insert(arguments.end(), shared.begin(), shared.end());
    arguments.insert(arguments.end(), {"--memory", memory});
    return RunProgram(arguments);
  };
  const auto named_by = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--no-measure", "--batch", "1"});
    const ProgramResult refused = run(more, "1M");
    EXPECT_EQ(refused.exit_code, 4) << refused.err;
    const size_t at = refused.err.find("(--memory ");
    return at == std::string::npos
               ? refused.err
               : refused.err.substr(at + 10, refused.err.find(')', at) - at - 10);
  };
  const auto answers_with = [&](const std::string& memory, const std::string& results) {
    return run({"batch", in, "-o", folder / results, "--parallel", "1"}, memory);
  };
  WriteText(in, TextLine("a", R"({"prompt": "It is", "max_tokens": 3})"));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--requests", in}}) {
    const std::string enough = named_by(more);
    const ProgramResult batch = answers_with(enough, more.empty() ? "usual" : "texts");
    EXPECT_EQ(batch.exit_code, 0) << enough << batch.err;
  }
  WriteText(in, R"({"custom_id": "a", "method": "POST", "url": "/v1/score",)"
                R"( "body": {"text": "It is a truth"}})"
                "\n");
  const std::string enough = named_by({"--requests", in});
  const ProgramResult batch = answers_with(enough, "scores");
  EXPECT_EQ(batch.exit_code, 0) << enough << batch.err;
}

TEST(PlanCommand, RefusesFlagsOfBatchesWithoutOneAndFoldersThatCannotHoldStates) {
  const auto refusal = [](const PlanOptions& options) {
    std::ostringstream out;
    try {
      RunPlan(options, out);
    } catch (const Error& error) {
      return std::pair(error.kind(), std::string(error.what()));
    }
    return std::pair(ErrorKind::kRun, std::string("none"));
  };
  PlanOptions options = OptionsFor("k3");
  options.no_measure = true;
  options.engine.state_dir = "/no/such/folder";
  EXPECT_EQ(refusal(options).first, ErrorKind::kUsage);
  EXPECT_THAT(refusal(options).second, testing::HasSubstr("give --batch N too"));
  options.batch = 2;
  EXPECT_EQ(refusal(options).first, ErrorKind::kIo);
  EXPECT_THAT(refusal(options).second, testing::HasSubstr("/no/such/folder: "));
  options = OptionsFor("k3");
  options.requests = "in.jsonl";
  EXPECT_THAT(refusal(options).second, testing::HasSubstr("give --batch N too"));
}

TEST(PlanCommand, FindsABudgetWhereNoneIsGiven) {
  PlanOptions options = OptionsFor("k3");
  options.engine.memory_bytes.reset();
  options.json = true;
  options.no_measure = true;
  std::ostringstream out;
  RunPlan(options, out);
  EXPECT_GT(nlohmann::json::parse(out.str())["budget_bytes"].get<uint64_t>(), 1000000U);
}

TEST(PlanCommand, RefusesABudgetThatIsTooSmallAndNamesTheSmallest) {
  PlanOptions options = OptionsFor("k3");
  options.engine.memory_bytes = 1000;
  std::ostringstream out;
  try {
    RunPlan(options, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBudget);
    EXPECT_THAT(error.what(), testing::HasSubstr("--memory"));
  }
  EXPECT_TRUE(out.str().empty());
}

TEST(PlanCommand, IsChosenByItsName) {
  CLI::App app;
  AddPlanCommand(app);
  const std::string folder = OptionsFor("unaligned").engine.model_dir.string();
  testing::internal::CaptureStdout();
  app.parse("plan --no-measure --memory 200M -c 32 -m \"" + folder + "\"");
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("in all"));
  CLI::App other;
  AddPlanCommand(other);
  EXPECT_THROW(other.parse("plan --memory nonsense -m x"), Error);
}

}  // namespace
}  // namespace kimi_k3
