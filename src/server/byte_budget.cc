// A number of bytes that several threads share.
#include "server/byte_budget.h"

namespace kimi_k3::server {

ByteBudget::Share& ByteBudget::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  Return();
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = other.bytes_;
  return *this;
}

void ByteBudget::Share::Return() {
  ByteBudget* budget = std::exchange(budget_, nullptr);
  if (budget == nullptr) return;
  const std::lock_guard lock(budget->mutex_);
  budget->free_ += bytes_;
  budget->returned_.notify_all();
}

ByteBudget::Share ByteBudget::Take(uint64_t bytes, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!returned_.wait_until(lock, deadline, [&] { return bytes <= free_; })) return {};
  free_ -= bytes;
  return {this, bytes};
}

}  // namespace kimi_k3::server
