#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <span>

#include "base/error.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = (fs::temp_directory_path() / "kimi_k3_file_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }
  size_t Entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static void Write(const fs::path& path, std::string_view text) {
    AtomicFile file(path);
    file.Append(text);
    file.Commit();
  }
  static std::string Read(const fs::path& path) { return ReadWholeFile(path, 1 << 20); }

  fs::path folder_;
};

TEST_F(FileTest, AnAtomicFileAppearsWholeWhenCommittedAndNotBefore) {
  {
    AtomicFile file(folder_ / "a");
    file.Append(std::string_view("hello "));
    file.Append(std::string_view("world"));
    EXPECT_FALSE(fs::exists(folder_ / "a"));
    file.Commit();
  }
  EXPECT_EQ(Read(folder_ / "a"), "hello world");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(FileTest, AnAtomicFileThatIsNotCommittedLeavesNothing) {
  Write(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.Append(std::string_view("new"));
  }
  EXPECT_EQ(Read(folder_ / "a"), "old");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(FileTest, AnAtomicFileReplacesWhatALinkLeadsToAndKeepsTheLink) {
  fs::create_directory(folder_ / "there");
  Write(folder_ / "there/target", "old");
  fs::create_symlink("there/target", folder_ / "link");
  Write(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Read(folder_ / "there/target"), "new");
  fs::create_symlink("there/made", folder_ / "dangling");
  Write(folder_ / "dangling", "made");
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
  EXPECT_EQ(Read(folder_ / "there/made"), "made");
}

TEST_F(FileTest, AnAtomicFileKeepsThePermissionsOfTheFileThatItReplaces) {
  Write(folder_ / "a", "old");
  fs::permissions(folder_ / "a", fs::perms::owner_read | fs::perms::owner_write);
  Write(folder_ / "a", "new");
  EXPECT_EQ(Read(folder_ / "a"), "new");
  EXPECT_EQ(fs::status(folder_ / "a").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileTest, AnAtomicFileRefusesToReplaceWhatIsNoRegularFile) {
  EXPECT_THROW(AtomicFile("/dev/null"), Error);
  EXPECT_THROW(AtomicFile{folder_}, Error);
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THROW(AtomicFile(folder_ / "loop"), Error);
  fs::create_symlink("/dev/null", folder_ / "device");
  EXPECT_THROW(AtomicFile(folder_ / "device"), Error);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, AWholeFileIsReadWithinItsLimitAndAPipeIsRefusedWithoutWaiting) {
  Write(folder_ / "a", "12345");
  EXPECT_EQ(ReadWholeFile(folder_ / "a", 5), "12345");
  EXPECT_THROW(ReadWholeFile(folder_ / "a", 4), Error);
  EXPECT_THROW(ReadWholeFile(folder_ / "absent", 4), Error);
  EXPECT_THROW(ReadWholeFile(folder_, 4), Error);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(ReadWholeFile(folder_ / "pipe", 4), Error);
}

TEST_F(FileTest, ReadingBeyondTheEndNamesFileAndOffset) {
  Write(folder_ / "a", "12345");
  const UniqueFd fd = OpenForReading(folder_ / "a");
  EXPECT_EQ(FileSizeBytes(fd, folder_ / "a"), 5U);
  std::array<std::byte, 8> bytes;
  try {
    ReadExactly(fd, folder_ / "a", 2, bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("offset 5"), std::string::npos) << error.what();
  }
}

TEST_F(FileTest, HolesReadAsZeros) {
  {
    AtomicFile file(folder_ / "a");
    file.Truncate(10);
    file.WriteAt(8, std::as_bytes(std::span("x", 1)));
    file.Commit();
  }
  EXPECT_EQ(Read(folder_ / "a"), std::string("\0\0\0\0\0\0\0\0x\0", 10));
}

TEST_F(FileTest, ErrorsOfWritingNameTheFileItself) {
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string path = (folder_ / "none/a").string();
  EXPECT_TRUE(error_of([&] { AtomicFile file(path); }).starts_with(path + ": cannot create"));
  AtomicFile file(folder_ / "b");
  const std::string b = (folder_ / "b").string();
  std::filesystem::create_directory(folder_ / "b");
  const std::string text = error_of([&] { file.Commit(); });
  EXPECT_TRUE(text.starts_with(b + ": ")) << text;
  EXPECT_EQ(text.find(".partial"), std::string::npos) << text;
}

}  // namespace
}  // namespace kimi_k3
