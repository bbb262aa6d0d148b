// Tests of noticing that a file changes while it is in use.
#include "residency/file_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

class FileVersionTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 100;
  static UniqueFd Written(const std::filesystem::path& path) {
    std::ofstream(path) << std::string(kBytes, 'a');
    return OpenForReading(path);
  }
  // What CheckUnchanged says; empty where it is content.
  std::string Complaint() const {
    try {
      version_.CheckUnchanged(fd_, path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      return error.what();
    }
    return {};
  }

  const ScratchFolder scratch_;
  const std::filesystem::path path_ = scratch_.path() / "shard";
  const UniqueFd fd_ = Written(path_);
  const FileVersion version_ = FileVersion(fd_, path_, kBytes);
};

TEST_F(FileVersionTest, IsContentWithAFileThatIsReadMovedOrDeleted) {
  std::ifstream(path_).get();
  EXPECT_EQ(Complaint(), "");
  std::filesystem::rename(path_, scratch_.path() / "elsewhere");
  EXPECT_EQ(Complaint(), "");
  std::filesystem::remove(scratch_.path() / "elsewhere");
  EXPECT_EQ(Complaint(), "");
}

TEST_F(FileVersionTest, SaysWhetherItWasCutExtendedOrWrittenTo) {
  std::filesystem::resize_file(path_, kBytes - 1);
  EXPECT_THAT(Complaint(), HasSubstr("cut from 100 to 99 bytes"));
  std::filesystem::resize_file(path_, kBytes + 1);
  EXPECT_THAT(Complaint(), HasSubstr("extended from 100 to 101 bytes"));
  std::filesystem::resize_file(path_, kBytes);
  EXPECT_THAT(Complaint(), HasSubstr("written to while in use"));
}

TEST_F(FileVersionTest, RefusesAnotherLengthThanExpected) {
  EXPECT_THROW(FileVersion(fd_, path_, kBytes + 1), Error);
}

}  // namespace
}  // namespace kimi_k3
