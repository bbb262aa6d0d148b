// Tests of what one read goes through: short reads, interruptions, ends and errors.
#include "residency/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

using Next = ReadProgress::Next;

class ReadProgressTest : public testing::Test {
 protected:
  std::array<std::byte, 16> memory_ = {};
  int tag_ = 0;
  // Three blocks from offset 8192, of which all but the last 96 bytes are needed.
  const ReadRequest request_ = {&tag_, 3, 8192, memory_.data(), 12288, 12192};
};

TEST_F(ReadProgressTest, IsDoneWithAWholeRead) {
  ReadProgress progress(request_, true);
  EXPECT_EQ(progress.bytes(), 12288U);
  EXPECT_EQ(progress.Take(12288), Next::kDone);
  EXPECT_EQ(progress.completion().bytes, 12288U);
  EXPECT_EQ(progress.completion().tag, &tag_);
  EXPECT_FALSE(progress.completion().failure);
}

TEST_F(ReadProgressTest, IsDoneWhereTheFileEndsInsideTheLastBlock) {
  ReadProgress progress(request_, true);
  EXPECT_EQ(progress.Take(12192), Next::kDone);
}

TEST_F(ReadProgressTest, GoesOnAfterAShortReadAtABlockIfDirect) {
  ReadProgress direct(request_, true);
  EXPECT_EQ(direct.Take(5000), Next::kAgain);
  EXPECT_EQ(direct.offset(), 8192U + 4096U);
  EXPECT_EQ(direct.destination(), memory_.data() + 4096);
  EXPECT_EQ(direct.bytes(), 8192U);
  EXPECT_EQ(direct.Take(8192), Next::kDone);

  ReadProgress buffered(request_, false);
  EXPECT_EQ(buffered.Take(5000), Next::kAgain);
  EXPECT_EQ(buffered.offset(), 8192U + 5000U);
  EXPECT_EQ(buffered.Take(12192 - 5000), Next::kDone);
}

TEST_F(ReadProgressTest, FailsWhereTheFileEndsTooSoon) {
  for (const bool direct : {true, false}) {
    ReadProgress progress(request_, direct);
    EXPECT_EQ(progress.Take(6000), Next::kAgain);
    EXPECT_EQ(progress.Take(direct ? 6000 - 4096 : 0), Next::kFailed);
    const auto failure = progress.completion().failure;
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->shard, 3U);
    EXPECT_EQ(failure->offset, 8192U + 6000U);
    EXPECT_EQ(failure->error_number, 0);
  }
}

TEST_F(ReadProgressTest, RetriesInterruptionsButNotForEver) {
  ReadProgress progress(request_, true);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(progress.Take(-EINTR), Next::kAgain);
    EXPECT_EQ(progress.Take(-EAGAIN), Next::kAgain);
  }
  EXPECT_EQ(progress.Take(12288), Next::kDone);

  ReadProgress hopeless(request_, true);
  Next next = Next::kAgain;
  for (int i = 0; i < 10000 && next == Next::kAgain; ++i) next = hopeless.Take(-EAGAIN);
  EXPECT_EQ(next, Next::kFailed);
  EXPECT_EQ(hopeless.completion().failure->error_number, EAGAIN);
}

TEST_F(ReadProgressTest, FailsAtOnceWithAnErrorOfTheDrive) {
  ReadProgress progress(request_, true);
  EXPECT_EQ(progress.Take(4096), Next::kAgain);
  EXPECT_EQ(progress.Take(-EIO), Next::kFailed);
  EXPECT_EQ(progress.completion().failure->error_number, EIO);
  EXPECT_EQ(progress.completion().failure->offset, 8192U + 4096U);
}

TEST(DescribeFailure, NamesFileOffsetAndReason) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  const std::string file = checkpoint.shards()[1].path.string();
  for (const int error_number : {EIO, EINVAL, 0}) {
    const std::string text = DescribeFailure({1, 12345, error_number}, checkpoint);
    EXPECT_THAT(text, testing::HasSubstr(file));
    EXPECT_THAT(text, testing::HasSubstr("12345"));
  }
  EXPECT_THAT(DescribeFailure({1, 1, EINVAL}, checkpoint), testing::HasSubstr("--io buffered"));
}

TEST(Blocks, HoldTheirRange) {
  const ByteRange blocks = BlocksOf({2, 4095, 2});
  EXPECT_EQ(blocks.shard, 2U);
  EXPECT_EQ(blocks.offset, 0U);
  EXPECT_EQ(blocks.bytes, 8192U);
  EXPECT_EQ(BlocksOf({0, 8192, 4096}).bytes, 4096U);
}

}  // namespace
}  // namespace kimi_k3
