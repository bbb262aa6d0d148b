// The names that a batch knows its requests by.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace kimi_k3 {

// 128 bits of a SHA-256.
struct BatchId {
  std::array<uint64_t, 2> bits = {};
  auto operator<=>(const BatchId&) const = default;

  // Of the parts, each with its length.
  static BatchId Of(std::initializer_list<std::string_view> parts);
  // What Name() has made; nothing for any other text.
  static std::optional<BatchId> FromName(std::string_view name);

  std::string Hex() const;                              // 32 digits
  std::string Name() const { return kPrefix + Hex(); }  // as result lines have it

  static constexpr const char* kPrefix = "batch_req_";
};

struct BatchIdHash {
  size_t operator()(const BatchId& id) const { return static_cast<size_t>(id.bits[0]); }
};

}  // namespace kimi_k3
