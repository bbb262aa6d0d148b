// Tests of maps whose pages may become unreadable.
#include "residency/guarded_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

class GuardedMapTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 5 * 4096 + 100;
  GuardedMapTest() {
    std::ofstream file(path_, std::ios::binary);
    for (uint64_t i = 0; i < kBytes; ++i) file.put(static_cast<char>(i % 251));
  }
  // Reads every byte; true where all are as written.
  static bool AllAsWritten(const GuardedMap& map) {
    bool same = true;
    for (uint64_t i = 0; i < map.size_bytes(); ++i) {
      same = same && map.data()[i] == static_cast<std::byte>(i % 251);
    }
    return same;
  }
  // What the system says of the map of `path` alone: a sanitizer's own memory grows with what is
  // read.
  static uint64_t ResidentBytesOfMap(const std::filesystem::path& path) {
    std::ifstream maps("/proc/self/smaps");
    uint64_t kib = 0;
    bool inside = false;
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find('-') < line.find(' ')) {
        inside = line.ends_with(path.string());
        found = found || inside;
      } else if (inside && line.starts_with("Rss:")) {
        kib += std::stoull(line.substr(4));
      }
    }
    EXPECT_TRUE(found) << path;
    return kib << 10;
  }
  const ScratchFolder scratch_;
  const std::filesystem::path path_ = scratch_.path() / "shard";
};

TEST_F(GuardedMapTest, ShowsTheFile) {
  const GuardedMap map(path_, kBytes);
  EXPECT_TRUE(AllAsWritten(map));
  map.CheckIntact();
  map.LetGo(100, kBytes - 100);
  map.Forget(100, kBytes - 100);
  EXPECT_TRUE(AllAsWritten(map));
}

// Where the page cache holds a file in large pieces, a fault maps all of one.
TEST_F(GuardedMapTest, KeepsNothingOfWhatWasLetGoHoweverThePageCacheHoldsIt) {
  constexpr uint64_t kPieceBytes = uint64_t{1000} << 10;
  constexpr uint64_t kPieces = 48;
  const std::filesystem::path path = scratch_.path() / "large";
  {
    const std::vector<char> piece(kPieceBytes, 'x');
    std::ofstream file(path, std::ios::binary);
    for (uint64_t i = 0; i < kPieces; ++i) file.write(piece.data(), kPieceBytes);
  }
  const GuardedMap map(path, kPieces * kPieceBytes);
  unsigned sum = 0;
  for (uint64_t i = 0; i < kPieces; ++i) {
    for (uint64_t at = 0; at < kPieceBytes; at += 4096) {
      sum += std::to_integer<unsigned>(map.data()[i * kPieceBytes + at]);
    }
    map.LetGo(i * kPieceBytes, kPieceBytes);
  }
  EXPECT_EQ(sum % 256, 'x' * kPieces * (kPieceBytes / 4096) % 256);
  const uint64_t kept_bytes = ResidentBytesOfMap(path);
  EXPECT_LT(kept_bytes, uint64_t{4} << 20);
}

TEST_F(GuardedMapTest, RefusesAFileOfAnotherLength) {
  EXPECT_THROW(GuardedMap(path_, kBytes - 1), Error);
  EXPECT_THROW(GuardedMap(scratch_.path() / "absent", kBytes), Error);
}

TEST_F(GuardedMapTest, RemembersAPageThatCannotBeRead) {
  const GuardedMap map(path_, kBytes);
  std::filesystem::resize_file(path_, 4096);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { EXPECT_FALSE(AllAsWritten(map)); });
  for (std::thread& thread : threads) thread.join();
  // Growing the file again does not bring the bytes back.
  std::filesystem::resize_file(path_, kBytes);
  try {
    map.CheckIntact();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr(path_.string()));
    EXPECT_THAT(error.what(), testing::HasSubstr("offset 4096"));
  }
}

TEST_F(GuardedMapTest, SeesACutInsideTheLastPage) {
  const GuardedMap map(path_, kBytes);
  std::filesystem::resize_file(path_, kBytes - 1);
  EXPECT_THROW(map.CheckIntact(), Error);
}

TEST_F(GuardedMapTest, LeavesOtherFaultsToTheHandlerBefore) {
  const GuardedMap map(path_, kBytes);
  EXPECT_DEATH(raise(SIGBUS), "");
}

}  // namespace
}  // namespace kimi_k3
