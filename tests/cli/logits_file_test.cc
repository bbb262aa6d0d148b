// Tests of logits on disk.
#include "cli/logits_file.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/temporary_folder.h"
#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

TEST(LogitsFile, GivesBackItsRowsInAnyOrderAndLeavesNothing) {
  const TemporaryFolder folder;
  LogitsFile file(folder.path(), 3, 4);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  for (const size_t row : {2U, 0U, 1U}) {
    const std::vector<float> values(4, static_cast<float>(row) + 0.5F);
    file.Write(row, values);
  }
  std::vector<float> values(4);
  for (size_t row = 0; row < 3; ++row) {
    file.Read(row, values);
    EXPECT_EQ(values, std::vector<float>(4, static_cast<float>(row) + 0.5F));
  }
}

TEST(LogitsFile, NamesTheFolderThatIsNotThere) {
  try {
    const LogitsFile file("/no/such/folder", 1, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
  }
}

TEST(LogitsFile, RefusesAtOnceWhatNoDiskHolds) {
  const TemporaryFolder folder;
  for (const size_t rows : {SIZE_MAX, SIZE_MAX / 64, size_t{1} << 50}) {
    EXPECT_THROW(LogitsFile(folder.path(), rows, 16), Error) << rows;
  }
}

}  // namespace
}  // namespace kimi_k3
