// Tests of the readers that fetch in the submitting thread, with a system call that misbehaves.
#include "residency/blocking_reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "base/aligned_buffer.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

TEST(PreadReader, PutsAReadTogetherFromInterruptedAndShortOnes) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  AlignedBuffer<std::byte> want(8 * kBlockBytes, kBlockBytes);
  const ShardFiles plain(checkpoint, CacheUse::kUse);
  ASSERT_FALSE(
      plain.Read({nullptr, 0, 0, want.data(), want.size(), want.size()}).failure.has_value());
  for (const CacheUse use : {CacheUse::kUse, CacheUse::kBypass}) {
    int calls = 0;
    const ShardFiles files(checkpoint, use,
                           [&](int fd, std::span<std::byte> out, uint64_t offset) -> ssize_t {
                             if (++calls % 3 == 0) return -EINTR;
                             const size_t most = calls % 2 == 0 ? 5000 : 9000;
                             const ssize_t n = SystemPread(fd, out, offset);
                             return n < 0 ? n : std::min<ssize_t>(n, static_cast<ssize_t>(most));
                           });
    AlignedBuffer<std::byte> got(want.size(), kBlockBytes);
    const auto reader = MakePreadReader(files);
    reader->Submit({&calls, 0, 0, got.data(), got.size(), got.size()});
    std::vector<ReadCompletion> done;
    reader->Collect(true, done);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_FALSE(done[0].failure);
    EXPECT_EQ(done[0].tag, &calls);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0);
    EXPECT_GT(calls, 3);
  }
}

TEST(PreadReader, ReportsAnError) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  const ShardFiles files(checkpoint, CacheUse::kUse,
                         [](int, std::span<std::byte>, uint64_t) -> ssize_t { return -EIO; });
  AlignedBuffer<std::byte> memory(kBlockBytes, kBlockBytes);
  const auto reader = MakePreadReader(files);
  reader->Submit({nullptr, 1, kBlockBytes, memory.data(), kBlockBytes, kBlockBytes});
  std::vector<ReadCompletion> done;
  reader->Collect(false, done);
  ASSERT_EQ(done.size(), 1U);
  ASSERT_TRUE(done[0].failure);
  EXPECT_EQ(done[0].failure->error_number, EIO);
  EXPECT_EQ(done[0].failure->shard, 1U);
  EXPECT_EQ(done[0].failure->offset, kBlockBytes);
}

}  // namespace
}  // namespace kimi_k3
