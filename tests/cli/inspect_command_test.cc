// The inspect command, run as its users run it.
#include "cli/inspect_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(InspectCommand, TellsWhatTheFolderHolds) {
  const ProgramResult result = RunProgram({"inspect", SmallModel()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* text : {"parameters", "layers:", "routed experts", "expert w1 scales",
                           "read per token", "memory: at least"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_EQ(RunProgram({"inspect", "-m", SmallModel(), "--json"}).exit_code, 0);
}

TEST(InspectCommand, ListsTensorsThatMatchWithTheirValues) {
  const ProgramResult result =
      RunProgram({"inspect", SmallModel(), "--tensors", "*model.norm.weight", "--tensors",
                  "*.1.*experts.0.w1*", "--values", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json list = json::parse(result.out);
  ASSERT_EQ(list.size(), 3U);
  for (const json& tensor : list) {
    EXPECT_GT(tensor["offset"].get<uint64_t>(), 8U);
    EXPECT_EQ(tensor["values"]["nan"], 0);
    EXPECT_LT(tensor["values"]["min"], tensor["values"]["max"]);
  }
  const ProgramResult text =
      RunProgram({"inspect", SmallModel(), "--tensors", "*model.norm.weight", "--values"});
  EXPECT_THAT(text.out, HasSubstr("language_model.model.norm.weight  BF16  ["));
  EXPECT_THAT(text.out, HasSubstr("deviation"));
}

TEST(InspectCommand, DrawsWhereTheBytesAre) {
  const TemporaryFolder folder;
  const ProgramResult result =
      RunProgram({"inspect", SmallModel(), "--svg", folder / "bytes.svg", "-q"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(folder / "bytes.svg"), HasSubstr("</svg>"));
}

TEST(InspectCommand, WorksWhileShardsAreMissing) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunProgram({"synth", "-o", folder / "m", "--layers", "5", "--quiet"}).exit_code, 0);
  const json whole = json::parse(RunProgram({"inspect", folder / "m", "--json"}).out);
  std::filesystem::remove(folder / "m/model-00002-of-000003.safetensors");
  const ProgramResult result = RunProgram({"inspect", folder / "m", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json part = json::parse(result.out);
  EXPECT_EQ(part["missing_files"], json({"model-00002-of-000003.safetensors"}));
  EXPECT_EQ(part["bytes"], whole["bytes"]);
  EXPECT_EQ(part["roles"], whole["roles"]);
  EXPECT_THAT(RunProgram({"inspect", folder / "m"}).out, HasSubstr("1 file is not there"));
}

TEST(InspectCommand, RefusesMistakesInWords) {
  EXPECT_EQ(RunProgram({"inspect"}).exit_code, 2);
  const ProgramResult none = RunProgram({"inspect", SmallModel(), "--tensors", "*nothing*"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("*nothing*"));
  EXPECT_EQ(RunProgram({"inspect", SmallModel(), "--values"}).exit_code, 2);
  const ProgramResult gone = RunProgram({"inspect", "/nonexistent"});
  EXPECT_EQ(gone.exit_code, 3);
  EXPECT_THAT(gone.err, HasSubstr("/nonexistent: does not exist"));
  EXPECT_EQ(RunProgram({"inspect", SmallModel(), "--svg", "/nonexistent/x.svg"}).exit_code, 5);
  const ProgramResult own =
      RunProgram({"inspect", SmallModel(), "--svg", SmallModel() + "/config.json"});
  EXPECT_EQ(own.exit_code, 2);
  EXPECT_THAT(own.err, HasSubstr("would be replaced"));
}

// A file that looks like weights and is not named by the index is told of.
TEST(InspectCommand, OddFilesAreToldOf) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunProgram({"synth", "-o", folder / "m", "--layers", "2", "--quiet"}).exit_code, 0);
  std::ofstream(folder / "m/extra.safetensors") << "x";
  const std::string m = folder / "m";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"inspect", m}, {"plan", "-m", m, "--no-measure"}}) {
    const ProgramResult result = RunProgram(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("extra.safetensors: ignored")) << command[0];
    EXPECT_THAT(result.out, testing::Not(HasSubstr("extra.safetensors"))) << command[0];
  }
}

}  // namespace
}  // namespace kimi_k3
