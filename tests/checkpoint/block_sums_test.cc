// Tests of the sums of a file's blocks.
#include "checkpoint/block_sums.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

TEST(BlockSums, CoverTheFileToItsLastByte) {
  const BlockSums sums(10000, "x", 4096);
  ASSERT_EQ(sums.blocks(), 3U);
  EXPECT_EQ(sums.OffsetOf(2), 8192U);
  EXPECT_EQ(sums.BytesOf(2), 10000U - 8192);
  EXPECT_EQ(BlockSums(0, "x").blocks(), 0U);
  EXPECT_TRUE(BlockSums(0, "x").complete());
  EXPECT_EQ(BlockSums(8192, "x", 4096).blocks(), 2U);
}

TEST(BlockSums, TellWhichBytesAreThere) {
  BlockSums sums(10000, "x", 4096);
  sums.Set(1, 7);
  EXPECT_TRUE(sums.HasBytes(4096, 8192));
  EXPECT_TRUE(sums.HasBytes(5000, 5000));
  EXPECT_FALSE(sums.HasBytes(4095, 8192));
  EXPECT_FALSE(sums.HasBytes(4096, 8193));
  sums.Set(2, 7);
  EXPECT_TRUE(sums.HasBytes(4096, 10000));
  EXPECT_FALSE(sums.HasBytes(4096, 20000));
}

TEST(BlockSums, SurviveOnDisk) {
  const TemporaryFolder folder;
  const auto dir = folder.path();
  BlockSums sums(10000, "a source", 4096);
  sums.Set(1, 77);
  sums.Save(dir / "s");
  const auto loaded = BlockSums::Load(dir / "s");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->source(), "a source");
  EXPECT_EQ(loaded->file_bytes(), 10000U);
  EXPECT_FALSE(loaded->Has(0));
  EXPECT_EQ(loaded->sum(1), 77U);
  EXPECT_EQ(loaded->BytesPresent(), 4096U);
  EXPECT_FALSE(loaded->complete());
}

TEST(BlockSums, DamagedOnesCountAsNone) {
  const TemporaryFolder folder;
  const auto dir = folder.path();
  EXPECT_FALSE(BlockSums::Load(dir / "none"));
  BlockSums(10000, "s", 4096).Save(dir / "s");
  const std::string good = ReadFile(dir / "s");
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() - 1), good + "x",
        std::string("x").append(good.substr(1)), std::string(good).replace(8, 8, 8, '\xff'),
        std::string(good).replace(16, 8, 8, '\0')}) {
    WriteFile(dir / "bad", bad);
    EXPECT_FALSE(BlockSums::Load(dir / "bad")) << bad.size();
  }
}

}  // namespace
}  // namespace kimi_k3
