// Tests of what the threads of a download share.
#include "fetch/download_board.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "fetch/fetch_test_support.h"
#include "fetch/manifest.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kBlock = 4096;

class Board : public testing::Test {
 protected:
  Board() { std::filesystem::create_directory(dir_ / ".kimi_k3"); }
  void Add(const char* name, size_t blocks, bool hashed = true) {
    RemoteFile remote{name, blocks * kBlock, std::nullopt};
    if (hashed) remote.hash = ExpectedHash{DigestKind::kSha256, "h"};
    board_.Add(DownloadTask(dir_.path(), remote, {}, "commit", kBlock), true);
  }
  void Put(const DownloadAssignment& next) {
    DownloadTask& task = next.job->task;
    const std::vector<std::byte> data(kBlock, std::byte{'x'});
    for (size_t block = next.run.first; block < next.run.end; ++block) {
      ASSERT_TRUE(board_.BeginWrite(task, block));
      task.WriteBlock(block, data);
      board_.MarkPresent(task, block, SumOfBlock(data));
    }
  }
  ScratchDir dir_;
  std::atomic<bool> stop_{false};
  DownloadBoard board_{stop_, 2, 4};
};

TEST_F(Board, HandsOutFileAfterFileInRunsOfBlocks) {
  Add("a", 6);
  Add("b", 1);
  EXPECT_EQ(board_.BytesMissing(), 7 * kBlock);
  const auto first = board_.Next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->run.end - first->run.first, 4U);
  const auto second = board_.Next();
  EXPECT_EQ(second->run.first, 4U);
  EXPECT_EQ(board_.Next()->job->task.remote().name, "b");
  Put(*second);
  board_.GiveBack(*first);
  board_.GiveBack(*second);
  EXPECT_EQ(board_.Next()->run.first, 0U);
  EXPECT_EQ(board_.progress().bytes_done, 2 * kBlock);
  EXPECT_EQ(board_.progress().bytes_fetched, 2 * kBlock);
}

TEST_F(Board, NobodyWritesABlockTwice) {
  Add("a", 2);
  const auto next = board_.Next();
  DownloadTask& task = next->job->task;
  EXPECT_TRUE(board_.BeginWrite(task, 0));
  EXPECT_FALSE(board_.BeginWrite(task, 0));
}

TEST_F(Board, AServerWithoutRangesIsReadByOneConnectionAtATime) {
  Add("a", 4);
  const auto next = board_.Next();
  DownloadTask& task = next->job->task;
  EXPECT_TRUE(board_.TakeWhole(task));
  EXPECT_FALSE(board_.TakeWhole(task));
  board_.GiveBack({next->job, next->run, true});
  EXPECT_TRUE(board_.Next()->whole);
}

TEST_F(Board, ADifferentTagIsNoticedAndForgetsWhatNoHashWouldTell) {
  Add("a", 2, false);
  const auto next = board_.Next();
  DownloadTask& task = next->job->task;
  EXPECT_TRUE(board_.SameTag(task, ""));
  EXPECT_TRUE(board_.SameTag(task, "x"));
  EXPECT_TRUE(board_.SameTag(task, "x"));
  EXPECT_FALSE(board_.SameTag(task, "y"));
  Put(*next);
  board_.ForgetUnhashed(task);
  EXPECT_FALSE(task.Has(0));
}

TEST_F(Board, AFailureOfOneEndsTheWaitingOfAll) {
  Add("a", 2);
  DownloadJob* job = board_.NextToFollow();
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(board_.NextToFollow(), nullptr);
  board_.WorkerStarts();
  bool there = true;
  std::thread waiting([&] { there = board_.Await(job->task, 0); });
  board_.Guard([] { Fail(ErrorKind::kIo, "the disk is full"); });
  waiting.join();
  EXPECT_FALSE(there);
  EXPECT_FALSE(board_.Next());
  EXPECT_FALSE(board_.Watch());
  EXPECT_THROW(board_.RethrowFailure(), Error);
}

TEST_F(Board, AWishToStopEndsPauses) {
  Add("a", 2);
  std::thread stopper([&] { stop_.store(true); });
  board_.Pause(std::chrono::minutes(10), "waiting", true);
  stopper.join();
  EXPECT_FALSE(board_.Next());
  EXPECT_EQ(board_.progress().trouble, "");
}

TEST_F(Board, IsOverWhenEveryFileIsFinished) {
  Add("a", 2);
  const auto next = board_.Next();
  DownloadJob* job = board_.NextToFollow();
  Put(*next);
  EXPECT_FALSE(board_.SumToCheck(job->task, 0));  // written just now
  board_.SyncOpenFiles();
  bool noted = false;
  board_.Finish(*job, "", [&] { noted = true; });
  EXPECT_TRUE(noted);
  EXPECT_FALSE(board_.Next());
  EXPECT_EQ(board_.progress().files_done, 1U);
  EXPECT_EQ(GetFile(dir_ / "a"), std::string(2 * kBlock, 'x'));
}

}  // namespace
}  // namespace kimi_k3
