// A number of bytes that several threads share.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "server/request_reader.h"

namespace kimi_k3::server {

// Called from any thread.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t bytes) : free_(bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Bytes taken; given back when it is destroyed, which the budget must outlive.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept;
    ~Share() { Return(); }
    // False where the bytes were not to be had.
    explicit operator bool() const { return budget_ != nullptr; }

   private:
    friend class ByteBudget;
    Share(ByteBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    void Return();
    ByteBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // Waits for the bytes until the deadline.
  Share Take(uint64_t bytes, Clock::time_point deadline);

 private:
  std::mutex mutex_;
  std::condition_variable returned_;
  uint64_t free_;
};

}  // namespace kimi_k3::server
