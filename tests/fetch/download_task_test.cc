// Tests of one file on its way.
#include "fetch/download_task.h"

#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"
#include "fetch/manifest.h"

namespace kimi_k3 {
namespace {

class DownloadTaskTest : public testing::Test {
 protected:
  DownloadTaskTest() { std::filesystem::create_directory(dir_ / ".kimi_k3"); }
  DownloadTask Make(std::vector<bool> wanted = {}, const char* hash = "h") {
    return DownloadTask(dir_.path(), {"sub/f", 10000, ExpectedHash{DigestKind::kSha256, hash}},
                        std::move(wanted), "commit", 4096);
  }
  void Put(DownloadTask& task, size_t block) {
    const std::vector<std::byte> data(task.sums().BytesOf(block), std::byte{'x'});
    task.WriteBlock(block, data);
    task.MarkPresent(block, SumOfBlock(data));
  }
  ScratchDir dir_;
};

TEST_F(DownloadTaskTest, GivesEveryBlockToOneConnection) {
  DownloadTask task = Make();
  task.Open();
  const auto first = task.Take(2);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->end, 2U);
  const auto second = task.Take(2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->first, 2U);
  EXPECT_FALSE(task.Take(2));
  task.GiveBack(*first);
  EXPECT_EQ(task.Take(8)->first, 0U);
}

TEST_F(DownloadTaskTest, TakesUpWhatAnEarlierRunLeft) {
  {
    DownloadTask task = Make();
    task.Open();
    Put(task, 1);
  }
  DownloadTask again = Make();
  EXPECT_TRUE(again.Has(1));
  EXPECT_FALSE(again.Fresh(1));
  EXPECT_EQ(again.BytesMissing(), 10000U - 4096);
  again.Open();
  EXPECT_EQ(again.Take(8)->end, 1U);  // up to the block that is there
}

TEST_F(DownloadTaskTest, StartsAnewForOtherContent) {
  {
    DownloadTask task = Make();
    task.Open();
    Put(task, 1);
  }
  EXPECT_FALSE(Make({}, "other").Has(1));
}

TEST_F(DownloadTaskTest, WantsOnlyWhatItIsToldTo) {
  DownloadTask task = Make({false, true, false});
  EXPECT_FALSE(task.whole());
  EXPECT_EQ(task.BytesWanted(), 4096U);
  task.Open();
  EXPECT_EQ(task.Take(8)->first, 1U);
  EXPECT_FALSE(task.Take(8));
  Put(task, 1);
  EXPECT_TRUE(task.HasAllWanted());
  task.Finish("");
  EXPECT_EQ(std::filesystem::file_size(dir_ / "sub/f"), 10000U);
  EXPECT_TRUE(BlockSums::Load(SumsPath(dir_.path(), "sub/f"))->Has(1));
}

TEST_F(DownloadTaskTest, FinishesUnderItsOwnName) {
  DownloadTask task = Make();
  task.Open();
  for (size_t block = 0; block < 3; ++block) Put(task, block);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "sub/f"));
  task.Finish("hash");
  EXPECT_EQ(GetFile(dir_ / "sub/f"), std::string(10000, 'x'));
  EXPECT_FALSE(std::filesystem::exists(task.partial()));
  const auto sums = BlockSums::Load(SumsPath(dir_.path(), "sub/f"));
  EXPECT_EQ(sums->source(), "hash");
  EXPECT_TRUE(sums->complete());
}

TEST_F(DownloadTaskTest, ABlockIsWrittenByOneConnection) {
  DownloadTask task = Make({true, false, true});
  task.Open();
  EXPECT_TRUE(task.BeginWrite(0));
  EXPECT_FALSE(task.BeginWrite(0));
  EXPECT_FALSE(task.BeginWrite(1));  // not wanted
  Put(task, 0);
  EXPECT_FALSE(task.BeginWrite(0));  // there
  task.MarkMissing(0);
  EXPECT_TRUE(task.BeginWrite(0));
}

TEST_F(DownloadTaskTest, ForgetsBlocksThatAreBad) {
  DownloadTask task = Make();
  task.Open();
  Put(task, 0);
  Put(task, 2);
  task.MarkMissing(0);
  EXPECT_EQ(task.missing_blocks(), 2U);
  EXPECT_EQ(task.Take(8)->first, 0U);
  task.MarkAllMissing();
  EXPECT_EQ(task.missing_blocks(), 3U);
}

TEST_F(DownloadTaskTest, WritesThroughNoLink) {
  std::filesystem::create_symlink("/tmp/elsewhere", dir_ / ".kimi_k3/sub%2Ff.partial");
  DownloadTask task = Make();
  EXPECT_EQ(ErrorOf([&] { task.Open(); }).first, ErrorKind::kIo);
}

}  // namespace
}  // namespace kimi_k3
