// Tests of how the way of reading is chosen.
#include "residency/io_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

class IoChannelTest : public testing::Test {
 protected:
  IoChannel Open(const IoOptions& options) const {
    return OpenIoChannel(checkpoint_, options, {16 * kBlockBytes, kBlockBytes, 4, {}},
                         2 * kBlockBytes);
  }
  const Checkpoint checkpoint_ = Checkpoint::Open(GoldenCheckpoint("k3"));
};

TEST_F(IoChannelTest, UsesThreadsWhereIoUringIsRefused) {
  IoOptions options;
  options.mode = IoMode::kDirect;
  options.hooks.refuse_io_uring = true;
  const IoChannel channel = Open(options);
  EXPECT_THAT(channel.description, HasSubstr("direct reads by 8 threads"));
  EXPECT_THAT(channel.description, HasSubstr("io_uring refused"));
  EXPECT_EQ(channel.readers.size(), 8U);
}

TEST_F(IoChannelTest, AutoSaysWhyItReadsThroughThePageCache) {
  IoOptions options;
  options.hooks.pread = [](int fd, std::span<std::byte> out, uint64_t offset) -> ssize_t {
    return out.size() == kBlockBytes ? -EINVAL : SystemPread(fd, out, offset);
  };
  EXPECT_THAT(Open(options).description, HasSubstr("no direct reads on this file system"));
  options.mode = IoMode::kDirect;
  EXPECT_THROW(Open(options), Error);
}

TEST_F(IoChannelTest, DepthFollowsTheRingUnlessGiven) {
  IoOptions options;
  options.mode = IoMode::kBuffered;
  EXPECT_EQ(Open(options).readers.size(), 8U);
  options.depth = 3;
  EXPECT_EQ(Open(options).readers.size(), 3U);
}

TEST_F(IoChannelTest, EveryDriveAddsItsShareOfTheDepth) {
  const std::filesystem::path other = "/dev/shm";
  struct stat here = {};
  struct stat there = {};
  const std::filesystem::path from = GoldenCheckpoint("k3");
  if (stat(from.c_str(), &here) != 0 || stat(other.c_str(), &there) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "there is no second device";
  }
  const std::filesystem::path folder = other / ("kimi_k3_io_channel_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::copy(from / "model-00002-of-000003.safetensors", folder);
  {
    const Checkpoint split = Checkpoint::Open(std::vector<std::filesystem::path>{folder, from});
    IoOptions options;
    options.mode = IoMode::kBuffered;
    const IoChannel channel =
        OpenIoChannel(split, options, {16 * kBlockBytes, kBlockBytes, 4, {}}, 2 * kBlockBytes);
    EXPECT_EQ(channel.readers.size(), 16U);
    EXPECT_THAT(channel.description, HasSubstr("16 threads, 2 drives"));
  }
  std::filesystem::remove_all(folder);
}

TEST_F(IoChannelTest, EveryDriveHasReadersOfItsOwn) {
  uint64_t device = 0;
  IoOptions options;
  options.hooks.device_of = [&](const std::filesystem::path&) { return device++; };
  IoChannel channel = Open(options);
  EXPECT_EQ(channel.drives.drives(), 3U);
  EXPECT_EQ(channel.readers.size() % 3, 0U);
  for (const auto& reader : channel.readers) {
    EXPECT_EQ(reader->depth(), channel.readers[0]->depth());
  }
  options.hooks.refuse_io_uring = true;
  channel = Open(options);
  EXPECT_EQ(channel.readers.size(), 24U);
  EXPECT_THAT(channel.description, HasSubstr("24 threads"));
  EXPECT_THAT(channel.description, HasSubstr("3 drives"));
}

TEST_F(IoChannelTest, WrapsEveryReader) {
  IoOptions options;
  options.mode = IoMode::kMmap;
  options.depth = 5;
  int wrapped = 0;
  options.hooks.wrap_reader = [&](std::unique_ptr<Reader> reader) {
    ++wrapped;
    return reader;
  };
  EXPECT_EQ(Open(options).readers.size(), 5U);
  EXPECT_EQ(wrapped, 5);
}

TEST(ParseIoMode, KnowsFourWords) {
  EXPECT_EQ(ParseIoMode("auto"), IoMode::kAuto);
  EXPECT_EQ(ParseIoMode("direct"), IoMode::kDirect);
  EXPECT_EQ(ParseIoMode("buffered"), IoMode::kBuffered);
  EXPECT_EQ(ParseIoMode("mmap"), IoMode::kMmap);
  EXPECT_THROW(ParseIoMode("fast"), Error);
  EXPECT_THROW(ParseIoMode(""), Error);
}

}  // namespace
}  // namespace kimi_k3
