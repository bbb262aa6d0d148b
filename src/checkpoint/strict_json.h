// JSON from untrusted files, read so strictly that two readers cannot see two different texts.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace kimi_k3 {

inline constexpr size_t kJsonDepthLimit = 64;

// Parses one JSON text. Throws Error(kCheckpoint) that starts with `source` for a byte order mark,
// a NUL byte,
// a syntax error (with its line and column), a repeated key, a number beyond the range of a double
// (each naming the field by its path) and for nesting deeper than kJsonDepthLimit.
nlohmann::json ParseStrictJson(std::string_view text, std::string_view source);

}  // namespace kimi_k3
