// Tests of what is believed of a response.
#include "fetch/response_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"
#include "fetch/manifest.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBlock = 4096;
const std::string kHash(64, 'a');

class Receiver : public testing::Test {
 protected:
  Receiver() {
    std::filesystem::create_directory(dir_ / ".kimi_k3");
    board_.Add(
        DownloadTask(dir_.path(), {"f", 3 * kBlock + 5, ExpectedHash{DigestKind::kSha256, kHash}},
                     {}, "commit", kBlock),
        true);
    next_ = board_.Next();  // blocks 0 and 1
  }
  static HttpReply Partial(uint64_t first, uint64_t last, uint64_t total) {
    HttpReply reply;
    reply.status = 206;
    reply.content_range = HttpReply::ContentRange{first, last, total};
    reply.content_length = last - first + 1;
    return reply;
  }
  static std::vector<std::byte> Bytes(size_t n) { return std::vector<std::byte>(n, std::byte{7}); }
  std::string Refusal(const HttpReply& reply) {
    ResponseReceiver receiver(board_, *next_);
    EXPECT_FALSE(receiver.Begin(reply));
    return receiver.outcome().what;
  }
  ScratchDir dir_;
  std::atomic<bool> stop_{false};
  DownloadBoard board_{stop_, 1, 2};
  std::optional<DownloadAssignment> next_;
};

TEST_F(Receiver, AsksForItsBlocksAndWritesThemAsTheyAreComplete) {
  ResponseReceiver receiver(board_, *next_);
  ASSERT_TRUE(receiver.range());
  EXPECT_EQ(receiver.range()->last, 2 * kBlock - 1);
  ASSERT_TRUE(receiver.Begin(Partial(0, 2 * kBlock - 1, 3 * kBlock + 5)));
  const DownloadTask& task = next_->job->task;
  EXPECT_TRUE(receiver.Take(Bytes(kBlock - 1)));
  EXPECT_FALSE(receiver.outcome().progress);
  EXPECT_TRUE(receiver.Take(Bytes(2)));
  EXPECT_TRUE(receiver.outcome().progress);
  EXPECT_TRUE(task.Has(0));
  EXPECT_FALSE(task.Has(1));
  EXPECT_EQ(receiver.missing(), kBlock - 1);
  EXPECT_TRUE(receiver.Take(Bytes(kBlock - 1)));
  EXPECT_TRUE(receiver.complete());
  EXPECT_FALSE(receiver.Take(Bytes(1)));
  EXPECT_THAT(receiver.outcome().what, HasSubstr("more than it was asked for"));
}

TEST_F(Receiver, RefusesWhatItDidNotAskFor) {
  HttpReply reply = Partial(0, 2 * kBlock - 1, 3 * kBlock + 5);
  reply.content_range.reset();
  EXPECT_THAT(Refusal(reply), HasSubstr("does not say which bytes"));
  EXPECT_THAT(Refusal(Partial(1, 2 * kBlock - 1, 3 * kBlock + 5)), HasSubstr("other bytes"));
  EXPECT_THAT(Refusal(Partial(0, 2 * kBlock, 3 * kBlock + 5)), HasSubstr("other bytes"));
  EXPECT_THAT(Refusal(Partial(0, 2 * kBlock - 1, 3 * kBlock)), HasSubstr("has changed"));
  reply = Partial(0, 2 * kBlock - 1, 3 * kBlock + 5);
  reply.content_length = 17;
  EXPECT_THAT(Refusal(reply), HasSubstr("contradicts itself"));
  reply = Partial(0, 2 * kBlock - 1, 3 * kBlock + 5);
  reply.headers["etag"] = "\"" + std::string(64, 'b') + "\"";
  EXPECT_THAT(Refusal(reply), HasSubstr("its hash is another one"));
}

TEST_F(Receiver, ReadsFromTheBeginningWhereTheServerKnowsNoRanges) {
  HttpReply reply;
  reply.status = 200;
  reply.content_length = 3 * kBlock + 5;
  reply.headers["etag"] = "W/\"" + kHash + "\"";
  ResponseReceiver first(board_, *next_);
  EXPECT_TRUE(first.Begin(reply));
  EXPECT_TRUE(next_->whole);
  EXPECT_EQ(first.missing(), 3 * kBlock + 5);
  DownloadAssignment late{next_->job, {2, 3}, false};
  ResponseReceiver second(board_, late);
  EXPECT_FALSE(second.Begin(reply));
  EXPECT_TRUE(second.outcome().yield);
}

TEST_F(Receiver, StopsWhenAsked) {
  ResponseReceiver receiver(board_, *next_);
  stop_.store(true);
  EXPECT_FALSE(receiver.Take(Bytes(1)));
  EXPECT_EQ(receiver.outcome().what, "");
}

}  // namespace
}  // namespace kimi_k3
