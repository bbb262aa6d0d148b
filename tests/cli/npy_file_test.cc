// NumPy files: header, rows, and nothing where they are not finished.
#include "cli/npy_file.h"

#include <gtest/gtest.h>

#include <array>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

TEST(NpyFile, HasTheHeaderOfTheFormatAndTheRows) {
  const TemporaryFolder folder;
  NpyFile file(folder / "x.npy", 2, 3);
  file.AppendRow(std::array{1.0F, 2.0F, 3.0F});
  file.AppendRow(std::array{-0.0F, 5.0F, 6.0F});
  EXPECT_FALSE(std::filesystem::exists(folder / "x.npy"));
  file.Commit();
  const std::string bytes = ReadFile(folder / "x.npy");
  ASSERT_EQ(bytes.size(), 128U + 24U);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 61), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  ");
  EXPECT_EQ(bytes[127], '\n');
  EXPECT_EQ(bytes.substr(128, 4), std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ(bytes.substr(140, 4), std::string("\0\0\0\x80", 4));
}

TEST(NpyFile, LeavesNothingWhereItIsNotCommitted) {
  const TemporaryFolder folder;
  {
    NpyFile file(folder / "x.npy", 1, 1);
    file.AppendRow(std::array{1.0F});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace kimi_k3
