// The verify command, run as its users run it.
#include "cli/verify_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "fetch/faulty_server.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

class VerifyCommand : public testing::Test {
 protected:
  VerifyCommand() {
    EXPECT_EQ(RunProgram({"synth", "-o", folder_ / "m", "--layers", "5", "--quiet"}).exit_code, 0);
  }
  // Flips a bit of the last byte.
  void Damage(const std::string& name) const {
    std::fstream file(folder_ / name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(-1, std::ios::end);
    const int byte = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }
  TemporaryFolder folder_;
};

TEST_F(VerifyCommand, TellsByItsExitCodeAndInWords) {
  ProgramResult result = RunProgram({"verify", folder_ / "m"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("without a known hash"));
  EXPECT_EQ(RunProgram({"verify", folder_ / "m", "--write-hashes"}).exit_code, 0);
  result = RunProgram({"verify", folder_ / "m"});
  EXPECT_THAT(result.out, HasSubstr("all compared with a known hash"));
  Damage("m/model-00002-of-000003.safetensors");
  result = RunProgram({"verify", folder_ / "m"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr("model-00002-of-000003.safetensors: its SHA-256 is"));
  EXPECT_THAT(result.out, HasSubstr("1 of 5 files not good"));
  EXPECT_EQ(RunProgram({"verify", folder_ / "m", "--quick"}).exit_code, 0);
  const auto json = nlohmann::json::parse(RunProgram({"verify", folder_ / "m", "--json"}).out);
  EXPECT_EQ(json["good"], false);
  EXPECT_EQ(json["files"].size(), 5U);
  result = RunProgram({"verify", folder_ / "m", "--repair"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("nothing says where it came from"));
}

TEST_F(VerifyCommand, WhatARunWouldRefuseOfTheTokenizerIsNotGood) {
  const std::string model = folder_ / "t";
  std::filesystem::copy(TinyModel(), model);
  EXPECT_EQ(RunProgram({"verify", model, "--quick"}).exit_code, 0);
  const std::string whole = ReadFile(model + "/tiktoken.model");
  std::ofstream(model + "/tiktoken.model") << whole.substr(0, whole.size() - 3);
  for (const std::string how : {"--quick", "--write-hashes", "-q"}) {
    const ProgramResult result = RunProgram({"verify", model, how});
    EXPECT_EQ(result.exit_code, 3) << how;
    EXPECT_THAT(result.out, HasSubstr("tiktoken.model: line ")) << how;
  }
  std::ofstream(model + "/tiktoken.model") << whole;
  std::filesystem::remove(model + "/tokenizer_config.json");
  const ProgramResult result = RunProgram({"verify", model});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr("tokenizer_config.json: not found"));
}

TEST_F(VerifyCommand, RepairsWhatWasPulled) {
  FaultyServer server;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "m")) {
    server.AddFile(entry.path().filename().string(), ReadFile(entry.path().string()));
  }
  ProgramOptions options;
  options.environment = {"HF_ENDPOINT=" + server.Endpoint(), "HOME=/nonexistent"};
  ASSERT_EQ(RunProgram({"pull", "owner/model", "-o", folder_ / "p"}, options).exit_code, 0);
  Damage("p/model-00001-of-000003.safetensors");
  std::filesystem::remove(folder_ / "p/config.json");
  EXPECT_EQ(RunProgram({"verify", folder_ / "p"}).exit_code, 3);
  const ProgramResult other = RunProgram({"verify", folder_ / "p", "--repair"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("set HF_ENDPOINT"));
  const ProgramResult result = RunProgram({"verify", folder_ / "p", "--repair"}, options);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("2 files repaired"));
  EXPECT_EQ(RunProgram({"verify", folder_ / "p"}).exit_code, 0);
}

TEST_F(VerifyCommand, RefusesMistakes) {
  EXPECT_EQ(RunProgram({"verify"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"verify", folder_ / "none"}).exit_code, 3);
  EXPECT_EQ(RunProgram({"verify", folder_ / "m", "--quick", "--continue"}).exit_code, 2);
  std::ofstream(folder_ / "sums") << "nonsense\n";
  EXPECT_EQ(RunProgram({"verify", folder_ / "m", "--hashes", folder_ / "sums"}).exit_code, 2);
}

}  // namespace
}  // namespace kimi_k3
