// The live line of something that takes hours: done, of how much, how fast, how long yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kimi_k3 {

// Speed over the last half minute or so, from counts that only grow.
class TransferRate {
 public:
  // The count now; returns bytes per second, 0 while nothing is known.
  double Update(uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_ = Clock::now();
  uint64_t then_ = 0;
  bool begun_ = false;
  double rate_ = 0;
};

// "312 GB of 1.56 TB, 2.1 GB/s, 10 min left".
std::string TransferText(uint64_t done, uint64_t total, double bytes_per_second);

}  // namespace kimi_k3
