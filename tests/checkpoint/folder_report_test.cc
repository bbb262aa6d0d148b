// Tests of how files and folders are listed (what is told of them: checkpoint_opener_test.cc).
#include "checkpoint/folder_report.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(FolderReport, ListsTheFirstNamesAndCountsTheRest) {
  EXPECT_EQ(ListNames({"a", "b"}), "a, b");
  std::vector<std::string> names(23, "x");
  EXPECT_TRUE(ListNames(names).ends_with("x, x and 3 more"));
}

TEST(FolderReport, NamesAllFolders) {
  const std::vector<std::filesystem::path> folders = {"/a", "b"};
  EXPECT_EQ(DirNames(folders), "/a, b");
}

}  // namespace
}  // namespace kimi_k3
