// Tests of reading files as they grow.
#include "fetch/file_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "fetch/fetch_test_support.h"
#include "fetch/manifest.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBlock = 4096;

class Follower : public testing::Test {
 protected:
  Follower() {
    std::filesystem::create_directory(dir_ / ".kimi_k3");
    options_.finished = [this](const RemoteFile& file, const std::string& sha256) {
      finished_ += file.name + " " + sha256 + "\n";
    };
    options_.note = [this](const std::string& text) { notes_ += text; };
  }
  static std::string Content(char letter) { return std::string(2 * kBlock + 9, letter); }
  static std::string HashOf(const std::string& text) {
    Digest digest(DigestKind::kSha256);
    digest.Update(text);
    return digest.Finish();
  }
  DownloadTask Task(const std::string& promised) const {
    return DownloadTask(dir_.path(),
                        {"f", 2 * kBlock + 9, ExpectedHash{DigestKind::kSha256, promised}}, {}, "c",
                        kBlock);
  }
  // As a connection would, letter after letter for each time it is fetched.
  void Fetch(const std::string& letters) {
    for (const char letter : letters) {
      const std::string text = Content(letter);
      while (const auto next = board_.Next()) {
        DownloadTask& task = next->job->task;
        for (size_t block = next->run.first; block < next->run.end; ++block) {
          const auto data =
              std::as_bytes(std::span(text).subspan(block * kBlock, task.sums().BytesOf(block)));
          if (!board_.BeginWrite(task, block)) continue;
          task.WriteBlock(block, data);
          board_.MarkPresent(task, block, SumOfBlock(data));
        }
        const bool last = next->run.end == task.sums().blocks();
        board_.GiveBack(*next);
        if (last) break;
      }
    }
  }
  ScratchDir dir_;
  std::atomic<bool> stop_{false};
  DownloadBoard board_{stop_, 1, 1};
  FollowerOptions options_;
  std::string finished_, notes_;
};

TEST_F(Follower, GivesAFileItsNameOnceItsHashIsRight) {
  board_.Add(Task(HashOf(Content('x'))), true);
  std::thread connection([&] { Fetch("x"); });
  FollowFiles(board_, options_);
  connection.join();
  EXPECT_EQ(finished_, "f " + HashOf(Content('x')) + "\n");
  EXPECT_EQ(GetFile(dir_ / "f"), Content('x'));
}

TEST_F(Follower, HasAWrongFileFetchedOnceMore) {
  board_.Add(Task(HashOf(Content('x'))), true);
  std::thread connection([&] { Fetch("yx"); });
  FollowFiles(board_, options_);
  connection.join();
  EXPECT_THAT(notes_, HasSubstr("fetched once more"));
  EXPECT_EQ(GetFile(dir_ / "f"), Content('x'));
}

TEST_F(Follower, GivesUpWhereItIsWrongTwice) {
  board_.Add(Task(HashOf(Content('x'))), true);
  std::thread connection([&] { Fetch("yz"); });
  const auto [kind, text] = ErrorOf([&] { FollowFiles(board_, options_); });
  connection.join();
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_THAT(text, HasSubstr("the repository promises"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "f"));
}

TEST_F(Follower, BelievesNoBlockOfAnEarlierRunWhoseSumIsWrong) {
  {
    DownloadTask task = Task(HashOf(Content('x')));
    task.Open();
    const std::string text = Content('x');
    for (size_t block = 0; block < 2; ++block) {
      const auto data = std::as_bytes(std::span(text).subspan(block * kBlock, kBlock));
      task.MarkPresent(block, SumOfBlock(data));
      if (block == 0) task.WriteBlock(block, data);  // the other one never reached the disk
    }
  }
  board_.Add(Task(HashOf(Content('x'))), true);
  EXPECT_EQ(board_.BytesMissing(), 9U);
  std::thread connection([&] { Fetch("xx"); });
  FollowFiles(board_, options_);
  connection.join();
  EXPECT_EQ(board_.progress().bytes_fetched, kBlock + 9);
  EXPECT_EQ(GetFile(dir_ / "f"), Content('x'));
}

TEST_F(Follower, LeavesOffWhenAsked) {
  board_.Add(Task(HashOf(Content('x'))), true);
  std::thread stopper([&] { stop_.store(true); });
  FollowFiles(board_, options_);
  stopper.join();
  EXPECT_EQ(finished_, "");
}

}  // namespace
}  // namespace kimi_k3
