// Tests of the open shards.
#include "residency/shard_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "base/error.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

ssize_t RefuseDirect(int fd, std::span<std::byte> out, uint64_t offset) {
  // Only a trial read of one block at the start of a file is aligned to its buffer like this.
  return out.size() == kBlockBytes && offset == 0 ? -EINVAL : SystemPread(fd, out, offset);
}

TEST(ShardFiles, TriesDirectReadsAndFallsBackWherePreferred) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  const ShardFiles files(checkpoint, CacheUse::kPrefer, RefuseDirect);
  EXPECT_FALSE(files.any_direct());
  EXPECT_FALSE(files.all_direct());
}

TEST(ShardFiles, RefusesWhereDirectReadsWereDemanded) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  try {
    const ShardFiles files(checkpoint, CacheUse::kBypass, RefuseDirect);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr("--io auto"));
    EXPECT_THAT(error.what(), testing::HasSubstr(checkpoint.shards()[0].path.string()));
  }
}

TEST(ShardFiles, ReadsRangesOfAnyAlignment) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("unaligned"));
  std::ifstream file(checkpoint.shards()[0].path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  for (const CacheUse use : {CacheUse::kPrefer, CacheUse::kUse, CacheUse::kDropBehind}) {
    const ShardFiles files(checkpoint, use);
    for (const ByteRange range : {ByteRange{0, 1, 7}, ByteRange{0, 4095, 2},
                                  ByteRange{0, 5000, 20000}, ByteRange{0, all.size() - 3, 3}}) {
      std::vector<std::byte> out(range.bytes);
      EXPECT_GE(files.ReadRange(checkpoint, range, out), range.bytes);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()),
                all.substr(range.offset, range.bytes));
    }
  }
}

TEST(ShardFiles, AFailedRangeNamesFileAndOffset) {
  const ScratchFolder scratch;
  const Checkpoint checkpoint = Checkpoint::Open(CopyOfGolden("k3", scratch));
  const ShardFiles files(checkpoint, CacheUse::kUse);
  std::filesystem::resize_file(checkpoint.shards()[0].path, 100);
  std::vector<std::byte> out(50);
  try {
    files.ReadRange(checkpoint, {0, 90, 50}, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr(checkpoint.shards()[0].path.string()));
    EXPECT_THAT(error.what(), testing::HasSubstr("offset 100"));
  }
}

TEST(ShardFiles, RefusesAMissingShard) {
  const ScratchFolder scratch;
  const Checkpoint checkpoint = Checkpoint::Open(CopyOfGolden("k3", scratch));
  std::filesystem::remove(checkpoint.shards()[1].path);
  for (const CacheUse use : {CacheUse::kBypass, CacheUse::kPrefer, CacheUse::kUse}) {
    EXPECT_THROW(ShardFiles(checkpoint, use), Error);
  }
}

}  // namespace
}  // namespace kimi_k3
