// Rules for text that the vendor's Python code inherits from Python.
#pragma once

#include <string_view>

namespace kimi_k3::text {

// Whether the text is empty or only what str.isspace accepts. Bytes that
// are not UTF-8 are not blank.
bool IsBlank(std::string_view text);

}  // namespace kimi_k3::text
