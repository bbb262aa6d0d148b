// Tests of finding what was never written of a file.
#include "checkpoint/file_hole.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPlace = 1 << 20;  // more than any block of a file system

TEST(FileHole, AWrittenFileHasNone) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "f", std::string(kPlace, '\0'));
  EXPECT_FALSE(FirstHole(OpenRegularFile(folder.path() / "f")));
  WriteFile(folder.path() / "empty", "");
  EXPECT_FALSE(FirstHole(OpenRegularFile(folder.path() / "empty")));
}

TEST(FileHole, TheFirstIsGivenWithItsEnd) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "f";
  WriteFile(path, std::string(kPlace, 'x'));
  fs::resize_file(path, 3 * kPlace);
  auto hole = FirstHole(OpenRegularFile(path));
  if (!hole) GTEST_SKIP() << "this file system has no holes";
  EXPECT_EQ(hole->begin, kPlace);
  EXPECT_EQ(hole->end, 3 * kPlace);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pwrite(fd.get(), "x", 1, 2 * kPlace), 1);
  hole = FirstHole(OpenRegularFile(path));
  ASSERT_TRUE(hole);
  EXPECT_EQ(hole->begin, kPlace);
  EXPECT_EQ(hole->end, 2 * kPlace);
}

}  // namespace
}  // namespace kimi_k3
