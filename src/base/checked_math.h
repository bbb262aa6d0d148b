// Arithmetic on untrusted sizes: every overflow is seen.
#pragma once

#include <cstdint>
#include <optional>

namespace kimi_k3 {

// a + b, or nothing where the sum does not fit.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b, or nothing where the product does not fit.
inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace kimi_k3
