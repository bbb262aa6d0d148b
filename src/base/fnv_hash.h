// A hash that tells things apart by accident, not by design.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kimi_k3 {

// FNV-1a (Fowler, Noll, Vo) of 64 bits.
class FnvHash {
 public:
  void Add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      value_ ^= static_cast<uint64_t>(byte);
      value_ *= 0x100000001b3U;
    }
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text))); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace kimi_k3
