// Finding out beforehand whether a result can be written.
#include "cli/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

std::string Refusal(const std::string& path, uint64_t size_bytes) {
  try {
    CheckResultFile("--stats", path, size_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    return error.what();
  }
  return "fine";
}

TEST(CheckResultFile, AcceptsNewAndPresentFilesAndLeavesThemAlone) {
  const TemporaryFolder folder;
  EXPECT_EQ(Refusal(folder / "x", 10), "fine");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::ofstream(folder / "x") << "old";
  EXPECT_EQ(Refusal(folder / "x", 10), "fine");
  EXPECT_EQ(ReadFile(folder / "x"), "old");
}

TEST(CheckResultFile, RefusesFoldersDevicesAndMissingFolders) {
  const TemporaryFolder folder;
  EXPECT_THAT(Refusal(folder.path(), 0), testing::HasSubstr("is a folder"));
  EXPECT_THAT(Refusal("/dev/null", 0), testing::HasSubstr("no regular file"));
  EXPECT_THAT(Refusal(folder / "none/x", 0), testing::HasSubstr("No such file"));
}

TEST(CheckResultFile, RefusesWhatTheDiskHasNoRoomFor) {
  const TemporaryFolder folder;
  EXPECT_THAT(Refusal(folder / "x", uint64_t{1} << 60), testing::HasSubstr("free"));
}

}  // namespace
}  // namespace kimi_k3
