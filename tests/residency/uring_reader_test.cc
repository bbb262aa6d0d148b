// Tests that every reader fetches the same bytes and reports the same failures; io_uring's own.
#include "residency/uring_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <fstream>
#include <thread>

#include "base/aligned_buffer.h"
#include "residency/blocking_reader.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

std::vector<std::byte> WholeFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

enum class Kind { kUringDirect, kUringBuffered, kPreadDirect, kPread, kPopulate };

class ReaderTest : public testing::TestWithParam<Kind> {
 protected:
  ReaderTest() {
    const bool direct = GetParam() == Kind::kUringDirect || GetParam() == Kind::kPreadDirect;
    if (GetParam() == Kind::kPopulate) {
      for (const Shard& shard : checkpoint_.shards()) maps_.emplace_back(shard.path, shard.bytes);
      reader_ = MakePopulateReader(maps_);
      return;
    }
    files_ = std::make_unique<ShardFiles>(checkpoint_, direct ? CacheUse::kBypass : CacheUse::kUse);
    std::string refusal;
    reader_ = GetParam() == Kind::kPread || GetParam() == Kind::kPreadDirect
                  ? MakePreadReader(*files_)
                  : MakeUringReader(*files_, 4, &refusal);
  }
  void SetUp() override {
    if (reader_ == nullptr) GTEST_SKIP() << "this system refuses io_uring";
  }
  std::byte* Destination(uint32_t shard, uint64_t offset) {
    return GetParam() == Kind::kPopulate ? const_cast<std::byte*>(maps_[shard].data()) + offset
                                         : memory_.data() + offset;
  }

  const ScratchFolder scratch_;
  const Checkpoint checkpoint_ = Checkpoint::Open(CopyOfGolden("k3", scratch_));
  AlignedBuffer<std::byte> memory_{1 << 20, kBlockBytes};
  std::unique_ptr<ShardFiles> files_;
  std::deque<GuardedMap> maps_;
  std::unique_ptr<Reader> reader_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, ReaderTest,
                         testing::Values(Kind::kUringDirect, Kind::kUringBuffered,
                                         Kind::kPreadDirect, Kind::kPread, Kind::kPopulate));

TEST_P(ReaderTest, FetchesEveryBlockOfAFileToTheLastPartialOne) {
  for (uint32_t shard = 0; shard < checkpoint_.shards().size(); ++shard) {
    const std::vector<std::byte> want = WholeFile(checkpoint_.shards()[shard].path);
    constexpr uint64_t kPiece = 3 * kBlockBytes;
    size_t in_flight = 0;
    std::vector<ReadCompletion> done;
    for (uint64_t at = 0; at < want.size() || in_flight > 0;) {
      if (at < want.size() && in_flight < reader_->depth()) {
        const uint64_t needed = std::min<uint64_t>(kPiece, want.size() - at);
        reader_->Submit({this, shard, at, Destination(shard, at), BlockCeil(needed), needed});
        ++in_flight;
        at += kPiece;
        continue;
      }
      done.clear();
      reader_->Collect(true, done);
      for (const ReadCompletion& completion : done) {
        EXPECT_EQ(completion.tag, this);
        EXPECT_FALSE(completion.failure);
        EXPECT_GT(completion.bytes, 0U);
      }
      in_flight -= done.size();
    }
    EXPECT_EQ(std::memcmp(Destination(shard, 0), want.data(), want.size()), 0);
  }
}

TEST_P(ReaderTest, ReportsAFileThatEndsTooSoon) {
  const Shard& shard = checkpoint_.shards()[0];
  std::filesystem::resize_file(shard.path, 2 * kBlockBytes + 10);
  reader_->Submit(
      {nullptr, 0, kBlockBytes, Destination(0, kBlockBytes), 4 * kBlockBytes, 4 * kBlockBytes});
  std::vector<ReadCompletion> done;
  reader_->Collect(true, done);
  ASSERT_EQ(done.size(), 1U);
  ASSERT_TRUE(done[0].failure);
  EXPECT_EQ(done[0].failure->shard, 0U);
  if (GetParam() != Kind::kPopulate) {
    EXPECT_EQ(done[0].failure->offset, 2 * kBlockBytes + 10);
    EXPECT_EQ(done[0].failure->error_number, 0);
  }
}

TEST_P(ReaderTest, CollectDoesNotBlockUnlessAsked) {
  std::vector<ReadCompletion> done;
  reader_->Collect(false, done);
  EXPECT_TRUE(done.empty());
}

TEST(UringReader, WakeEndsAWaitWithoutCompletions) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  const ShardFiles files(checkpoint, CacheUse::kUse);
  std::string refusal;
  const auto reader = MakeUringReader(files, 2, &refusal);
  if (reader == nullptr) GTEST_SKIP() << "this system refuses io_uring: " << refusal;
  for (int i = 0; i < 3; ++i) {
    std::thread waker([&] { reader->Wake(); });
    std::vector<ReadCompletion> done;
    reader->Collect(true, done);
    EXPECT_TRUE(done.empty());
    waker.join();
  }
}

}  // namespace
}  // namespace kimi_k3
