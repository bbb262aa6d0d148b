// Sharing a number of bytes.
#include "server/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>

namespace kimi_k3::server {
namespace {

using namespace std::chrono_literals;

TEST(ByteBudget, GivesNoMoreThanThereIs) {
  ByteBudget budget(10);
  ByteBudget::Share first = budget.Take(6, Clock::now());
  EXPECT_TRUE(first);
  EXPECT_FALSE(budget.Take(5, Clock::now() + 1ms));
  EXPECT_TRUE(budget.Take(4, Clock::now()));
  EXPECT_FALSE(budget.Take(11, Clock::now()));
  ByteBudget::Share moved = std::move(first);
  EXPECT_FALSE(budget.Take(5, Clock::now()));
  moved = {};
  EXPECT_TRUE(budget.Take(10, Clock::now()));
}

TEST(ByteBudget, WaitsForWhatOthersReturn) {
  ByteBudget budget(10);
  ByteBudget::Share all = budget.Take(10, Clock::now());
  std::thread returning([&] {
    std::this_thread::sleep_for(20ms);
    all = {};
  });
  EXPECT_TRUE(budget.Take(10, Clock::now() + 60s));
  returning.join();
}

}  // namespace
}  // namespace kimi_k3::server
