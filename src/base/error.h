// Throwing an Error with a formatted message.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "kimi_k3/error.h"

namespace kimi_k3 {

// Throws an Error whose message is formatted in the manner of fmt.
template <typename... Args>
[[noreturn]] void Fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kimi_k3
