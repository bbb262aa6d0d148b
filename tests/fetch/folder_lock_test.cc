// Tests of who may change a folder.
#include "fetch/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

TEST(FolderLock, IsHeldByOneAtATime) {
  const ScratchDir dir;
  {
    const FolderLock first(dir / "m");
    EXPECT_THAT(ErrorOf([&] { FolderLock(dir / "m"); }).second, HasSubstr("another kimi_k3"));
  }
  const FolderLock second(dir / "m");
}

TEST(FolderLock, FollowsNoLinksAndSaysWhatIsInTheWay) {
  const ScratchDir dir;
  std::filesystem::create_directories(dir / "m");
  std::filesystem::create_directory_symlink("/tmp", dir / "m/.kimi_k3");
  EXPECT_THAT(ErrorOf([&] { FolderLock(dir / "m"); }).second, HasSubstr("symbolic link"));
  PutFile(dir / "n/.kimi_k3", "a file");
  EXPECT_THAT(ErrorOf([&] { FolderLock(dir / "n"); }).second, HasSubstr("in the way"));
  std::filesystem::create_directories(dir / "o/.kimi_k3/lock");
  EXPECT_EQ(ErrorOf([&] { FolderLock(dir / "o"); }).first, ErrorKind::kIo);
}

}  // namespace
}  // namespace kimi_k3
