// The doctor command: what it finds is so, and what it advises works.
#include "cli/doctor_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(DoctorCommand, LooksAtTheMachine) {
  const ProgramResult result = RunProgram({"doctor"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* text : {"instruction sets:", "cores:", "memory:", "io_uring:", "free"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

TEST(DoctorCommand, WhatItAdvisesRuns) {
  const ProgramResult result = RunProgram({"doctor", "-m", TinyModel(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["reading"].size(), 4U);
  EXPECT_GT(json["reading"][0]["bytes_per_second"].get<double>(), 0);
  EXPECT_GT(json["seconds_per_token"].get<double>(), 0);
  EXPECT_THAT(json["trial"].get<std::string>(), HasSubstr("and ran"));
  EXPECT_FALSE(json["advice"].empty());
  std::string command = json["command"];
  ASSERT_TRUE(command.starts_with("kimi_k3 -m "));
  command.replace(0, 7, KIMI_K3_PROGRAM);
  command.replace(command.find("TEXT"), 4, "hello -n 2 --quiet");
  EXPECT_EQ(Program({"/bin/sh", "-c", command}).Finish().exit_code, 0) << command;
}

TEST(DoctorCommand, OfAPartInAFolderWithAnyName) {
  const TemporaryFolder folder;
  std::filesystem::copy(SmallModel(), folder / "a model's folder");
  const std::vector<std::string> doctor = {"doctor",  "-m",         folder / "a model's folder",
                                           "--shard", "layers=0-0", "--json"};
  const ProgramResult result = RunProgram(doctor);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::string command = nlohmann::json::parse(result.out)["command"];
  EXPECT_THAT(command, HasSubstr("--shard layers=0-0"));
  command.replace(0, 7, KIMI_K3_PROGRAM);
  command.replace(command.find("-p TEXT"), 7, "--token-ids 1 -n 2 --quiet");
  EXPECT_EQ(Program({"/bin/sh", "-c", command}).Finish().exit_code, 0) << command;
  EXPECT_EQ(RunProgram({"doctor", "--shard", "layers=0-0"}).exit_code, 2);
}

TEST(DoctorCommand, TriesWhatItSays) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << std::string(8192, 'x');
  EXPECT_NE(FileSystemName(folder.path()), "");
  EXPECT_EQ(FileSystemName("/nonexistent"), "unknown");
  EXPECT_NE(ProbeIoUring(), "");
  EXPECT_FALSE(DirectReadsWork("/nonexistent"));
  EXPECT_EQ(RunProgram({"doctor", "-m", "/nonexistent"}).exit_code, 3);
}

}  // namespace
}  // namespace kimi_k3
