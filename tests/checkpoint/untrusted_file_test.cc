// Only regular files are opened, and nothing makes the opener wait.
#include "checkpoint/untrusted_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

constexpr std::string_view kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

std::string RefusalOf(const std::filesystem::path& path) {
  try {
    ReadTextFile(path, 1000);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return error.what();
  }
  return "";
}

TEST(UntrustedFile, ReadsARegularFileAndALinkToOne) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "a", "text");
  std::filesystem::create_symlink("a", folder.path() / "b");
  EXPECT_EQ(ReadTextFile(folder.path() / "a", 4), "text");
  EXPECT_EQ(ReadTextFile(folder.path() / "b", 4), "text");
}

TEST(UntrustedFile, SaysWhatIsThereInsteadOfAFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "folder");
  std::filesystem::create_symlink("nowhere", folder.path() / "link");
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(RefusalOf(folder.path() / "folder"), HasSubstr("is a folder"));
  EXPECT_THAT(RefusalOf(folder.path() / "link"), HasSubstr("link to a file that is not there"));
  EXPECT_THAT(RefusalOf(folder.path() / "pipe"), HasSubstr("is a pipe"));
  EXPECT_THAT(RefusalOf(folder.path() / "none"), HasSubstr("is missing"));
  EXPECT_THAT(RefusalOf("/dev/null"), HasSubstr("is a device"));
}

TEST(UntrustedFile, RefusesAFileAboveTheLimit) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "a", std::string(1001, 'x'));
  EXPECT_THAT(RefusalOf(folder.path() / "a"), HasSubstr("more than the 1"));
}

TEST(UntrustedFile, RecognisesALargeFilePointer) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "a", kPointer);
  EXPECT_THAT(RefusalOf(folder.path() / "a"), HasSubstr("never downloaded"));
  EXPECT_FALSE(IsLfsPointer("version 3"));
}

TEST(UntrustedFile, RefusesALinkToItself) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.path() / "a", folder.path() / "a");
  EXPECT_THAT(RefusalOf(folder.path() / "a"), HasSubstr("leads back to itself"));
}

}  // namespace
}  // namespace kimi_k3
