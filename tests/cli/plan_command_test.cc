// Tests of the plan command.
#include "cli/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

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
  options.engine.context = 1 << 16;
  options.engine.state_dir = "states";
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
