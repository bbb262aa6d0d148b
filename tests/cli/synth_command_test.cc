// The synth command: what its flags mean.
#include "cli/synth_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

void Parse(std::vector<std::string> arguments) {
  CLI::App app("test");
  AddSynthCommand(app);
  arguments.insert(arguments.begin(), "synth");
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
}

std::string RefusalOf(const std::vector<std::string>& arguments) {
  try {
    Parse(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(SynthCommand, WritesTheTinyGeometryByDefault) {
  const TemporaryFolder folder;
  Parse({"-o", folder / "m", "--quiet"});
  const Checkpoint checkpoint = Checkpoint::Open(folder / "m");
  EXPECT_EQ(checkpoint.config().layers, 9U);
  EXPECT_EQ(checkpoint.shards().size(), 3U);
}

TEST(SynthCommand, FlagsChangeTheGeometry) {
  const TemporaryFolder folder;
  Parse({"-o", folder / "m", "--quiet", "--layers", "4", "--experts", "6", "--vocab", "100",
         "--shards", "1", "--seed", "7"});
  const Checkpoint checkpoint = Checkpoint::Open(folder / "m");
  EXPECT_EQ(checkpoint.config().layers, 4U);
  EXPECT_EQ(checkpoint.config().moe.experts, 6U);
  EXPECT_EQ(checkpoint.config().vocabulary, 100U);
  EXPECT_EQ(checkpoint.shards().front().path.filename(), "model.safetensors");
}

TEST(SynthCommand, TakesAConfigFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << GeometryConfig("tiny", {5, 8, 64});
  Parse({"-o", folder / "m", "--quiet", "--config", folder / "config.json", "--sparse"});
  const Checkpoint checkpoint = Checkpoint::Open(folder / "m");
  EXPECT_EQ(checkpoint.config().layers, 5U);
  EXPECT_EQ(checkpoint.shards().size(), 5U + 3);
  EXPECT_EQ(checkpoint.ReadVector(Role::kFinalNorm), std::vector<float>(128, 0.0F));
}

TEST(SynthCommand, RefusesMistakesInWords) {
  const TemporaryFolder folder;
  const std::string out = folder / "m";
  EXPECT_THAT(RefusalOf({"-o", out, "--geometry", "k4"}), HasSubstr("k4"));
  EXPECT_THAT(RefusalOf({"-o", out, "--layers", "0"}), HasSubstr("--layers"));
  EXPECT_THAT(RefusalOf({"-o", out, "--shards", "many"}), HasSubstr("--shards"));
  EXPECT_THAT(RefusalOf({"-o", out, "--geometry", "tiny", "--config", "c.json"}),
              HasSubstr("give one of them"));
  EXPECT_THROW(Parse({"--geometry", "tiny"}), CLI::RequiredError);
  Parse({"-o", out, "--quiet", "--layers", "2"});
  EXPECT_THAT(RefusalOf({"-o", out, "--quiet"}), HasSubstr("--force"));
  EXPECT_EQ(RefusalOf({"-o", out, "--quiet", "--force"}), "");
}

TEST(SynthCommand, AnEmptyFolderNameIsAMistakeOfUsage) {
  EXPECT_THAT(RefusalOf({"-o", ""}), HasSubstr("name is empty"));
}

}  // namespace
}  // namespace kimi_k3
