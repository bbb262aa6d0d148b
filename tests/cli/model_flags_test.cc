// The flags that say which model: -m, repeated, and --shard.
#include "cli/model_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

EngineOptions Parse(const std::string& arguments) {
  CLI::App app;
  FlagGroup group(app, "Model");
  EngineOptions engine;
  AddModelFlags(group, engine);
  app.parse(arguments);
  return engine;
}

TEST(ModelFlags, FoldersKeepTheirOrder) {
  const EngineOptions one = Parse("-m a");
  EXPECT_EQ(one.model_dir, "a");
  EXPECT_TRUE(one.more_model_dirs.empty());
  EXPECT_EQ(one.shard, "");
  const EngineOptions three = Parse("-m c --model a -m b");
  EXPECT_EQ(three.model_dir, "c");
  EXPECT_EQ(three.more_model_dirs, (std::vector<std::filesystem::path>{"a", "b"}));
}

TEST(ModelFlags, APartIsReadStrictly) {
  EXPECT_EQ(Parse("-m a --shard experts=0-3").shard, "experts=0-3");
  EXPECT_THROW(Parse("-m a --shard layers=x"), Error);
  EXPECT_THROW(Parse("-m a --shard layers=0-1 --shard experts=0-3"), Error);
  EXPECT_EQ(RunProgram({"-m", "", "-p", "hello"}).exit_code, 2);
}

std::vector<std::string> Arguments(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--token-ids", "5,17,3,9", "--print-ids",
                                        "-n",          "6",        "--ignore-eos"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ModelFlags, ARunOfAPartSaysThatItIsOne) {
  const TemporaryFolder folder;
  const ProgramResult whole =
      RunProgram(Arguments({"-m", SmallModel(), "--stats", folder / "whole.json"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.err, Not(HasSubstr("part")));
  EXPECT_FALSE(nlohmann::json::parse(ReadFile(folder / "whole.json")).contains("part"));
  const ProgramResult part = RunProgram(
      Arguments({"-m", SmallModel(), "--shard", "layers=1-2", "--stats", folder / "part.json"}));
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_THAT(part.err, AllOf(HasSubstr("not the model's"), HasSubstr("layers 1-2 of ")));
  EXPECT_THAT(nlohmann::json::parse(ReadFile(folder / "part.json"))["part"].get<std::string>(),
              HasSubstr("layers 1-2 of "));
  EXPECT_NE(part.out, whole.out);
  const ProgramResult plan = RunProgram(
      {"plan", "-m", SmallModel(), "--shard", "layers=1-2", "--no-measure", "--memory", "300M"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("not the model's"), HasSubstr("layers 1-2 of ")));
  const ProgramResult json = RunProgram({"plan", "-m", SmallModel(), "--shard", "layers=1-2",
                                         "--no-measure", "--memory", "300M", "--json"});
  EXPECT_THAT(nlohmann::json::parse(json.out)["part"].get<std::string>(),
              HasSubstr("layers 1-2 of "));
}

TEST(ModelFlags, APartThatCannotBeIsAUsageError) {
  for (const char* shard : {"layers=0-999", "experts=0-0", "layers=2-1", "everything"}) {
    const ProgramResult result = RunProgram(Arguments({"-m", SmallModel(), "--shard", shard}));
    EXPECT_EQ(result.exit_code, 2) << shard << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("--shard"));
    EXPECT_EQ(result.out, "");
  }
}

TEST(ModelFlags, SeveralFoldersAreOneModel) {
  const TemporaryFolder a, b;
  bool first = true;
  for (const auto& entry : std::filesystem::directory_iterator(TinyModel())) {
    const bool shard = entry.path().extension() == ".safetensors";
    const TemporaryFolder& folder = shard && std::exchange(first, false) ? b : a;
    if (shard) {
      std::filesystem::create_symlink(entry.path(), folder.path() / entry.path().filename());
    } else {
      std::filesystem::copy(entry.path(), folder.path());
    }
  }
  const auto run = [&](const std::vector<std::string>& folders) {
    std::vector<std::string> arguments = {"--raw", "-p", "In the beginning", "-n", "8", "-q"};
    for (const std::string& folder : folders) {
      arguments.push_back("-m");
      arguments.push_back(folder);
    }
    return RunProgram(arguments);
  };
  const ProgramResult whole = run({TinyModel()});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(run({a.path(), b.path()}).out, whole.out);
  EXPECT_EQ(run({b.path(), a.path()}).out, whole.out);
  const ProgramResult half = run({a.path()});
  EXPECT_EQ(half.exit_code, 3) << half.err;
  EXPECT_THAT(half.err, HasSubstr("missing"));
  const ProgramResult plan = RunProgram({"plan", "-m", a.path(), "-m", b.path(), "--no-measure"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

}  // namespace
}  // namespace kimi_k3
