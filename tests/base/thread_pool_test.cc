#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace kimi_k3 {
namespace {

TEST(ThreadPool, CoversEveryIndexExactlyOnceForAnySizeGrainAndThreadCount) {
  for (const size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const size_t n : {0, 1, 2, 7, 64, 1000}) {
      for (const size_t grain : {1, 3, 16, 2000}) {
        std::vector<int> visits(n, 0);
        std::vector<int> parts(threads, 0);
        pool.For(n, grain, [&](size_t part, size_t begin, size_t end) {
          ++parts[part];
          EXPECT_TRUE(end == n || (end - begin) % grain == 0);
          for (size_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_EQ(visits, std::vector<int>(n, 1));
        for (const int uses : parts) EXPECT_LE(uses, 1);
      }
    }
  }
}

TEST(ThreadPool, CoversEveryIndexOnceInPieces) {
  for (const size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const size_t n : {0, 1, 2, 7, 47, 64, 1000, 1001}) {
      for (const size_t grain : {1, 3, 16, 2000}) {
        std::vector<int> visits(n, 0);
        pool.ForPieces(n, grain, [&](size_t begin, size_t end) {
          EXPECT_TRUE(begin < end);
          EXPECT_TRUE(end == n || (end - begin) % grain == 0);
          for (size_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_EQ(visits, std::vector<int>(n, 1));
      }
    }
  }
}

TEST(ThreadPool, TakesPiecesFromAThreadThatIsSlow) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<size_t> by_others = 0;
  std::atomic<bool> others_done = false;
  // The caller stays in its first piece until all the rest has been done without it.
  pool.ForPieces(64, 1, [&](size_t begin, size_t end) {
    if (std::this_thread::get_id() == caller) {
      while (!others_done) std::this_thread::yield();
      return;
    }
    by_others += end - begin;
    if (by_others >= 48) others_done = true;
  });
  EXPECT_GE(by_others, 48U);
}

TEST(ThreadPool, RunsManyShortLoopsInOrder) {
  ThreadPool pool(4);
  std::vector<uint64_t> values(64, 0);
  for (int round = 0; round < 3000; ++round) {
    pool.For(values.size(), 1, [&](size_t, size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) values[i] = values[i] * 3 + i;
    });
  }
  std::vector<uint64_t> expected(64, 0);
  for (int round = 0; round < 3000; ++round) {
    for (size_t i = 0; i < 64; ++i) expected[i] = expected[i] * 3 + i;
  }
  EXPECT_EQ(values, expected);
  EXPECT_EQ(pool.barriers(), 3000U);
}

TEST(ThreadPool, FindsAtLeastOneUsableCore) {
  EXPECT_GE(UsableCores(), 1U);
  EXPECT_LE(UsableCores(), std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace kimi_k3
