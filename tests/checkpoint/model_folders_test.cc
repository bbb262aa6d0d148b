// Finding files in several folders.
#include "checkpoint/model_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

TEST(ModelFolders, TheFirstFolderThatHasTheFileIsTaken) {
  const TemporaryFolder a, b, c;
  const std::vector<fs::path> folders = {a.path(), b.path(), c.path()};
  EXPECT_EQ(FolderWith(folders, "f"), a.path());
  EXPECT_FALSE(HasEntry(a.path(), "f"));
  WriteFile(c.path() / "f", "c");
  EXPECT_EQ(FolderWith(folders, "f"), c.path());
  WriteFile(b.path() / "f", "b");
  EXPECT_EQ(FolderWith(folders, "f"), b.path());
  EXPECT_TRUE(HasEntry(b.path(), "f"));
}

TEST(ModelFolders, ALinkThatLeadsNowhereCountsOnlyWhereNothingElseIsThere) {
  const TemporaryFolder a, b;
  const std::vector<fs::path> folders = {a.path(), b.path()};
  fs::create_symlink(b.path() / "gone", b.path() / "f");
  EXPECT_TRUE(HasEntry(b.path(), "f"));
  EXPECT_EQ(FolderWith(folders, "f"), b.path());
  WriteFile(b.path() / "gone", "back");
  EXPECT_EQ(FolderWith(folders, "f"), b.path());
  fs::create_symlink(a.path() / "gone", a.path() / "f");
  EXPECT_EQ(FolderWith(folders, "f"), b.path());
}

TEST(ModelFolders, SayWhatIsWrongWithTheFolder) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "file", "x");
  fs::create_directory_symlink(folder.path() / "gone", folder.path() / "link");
  const auto refusal = [](const fs::path& path) -> std::string {
    try {
      const std::vector<fs::path> folders = {path};
      CheckFolders(folders);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(folder.path()), "");
  EXPECT_THAT(refusal(folder.path() / "none"), testing::HasSubstr("none: does not exist"));
  EXPECT_THAT(refusal(folder.path() / "file"), testing::HasSubstr("file: is no folder"));
  EXPECT_THAT(refusal(folder.path() / "link"), testing::HasSubstr("link: is a link to a folder"));
}

}  // namespace
}  // namespace kimi_k3
