// Writes JSON as Python's json.dumps(ensure_ascii=False) does, which the model was trained on.
#pragma once

#include <string>
#include <string_view>

#include "text/json_value.h"

namespace kimi_k3::text {

enum class JsonSpacing {
  kCompact,  // {"a":1,"b":2}
  kSpaced    // {"a": 1, "b": 2}
};
enum class JsonKeyOrder { kAsGiven, kSorted };  // kSorted: by code point, at every level

// The text of a value. Integers keep their digits; other numbers are printed as Python prints the
// nearest double (1e2 is 100.0, 1e999 is Infinity).
std::string WriteJson(const JsonValue& value, JsonSpacing spacing,
                      JsonKeyOrder order = JsonKeyOrder::kAsGiven);

// Appends the string in double quotes; only quotes, backslashes and controls are escaped.
void AppendJsonString(std::string_view string, std::string& out);

// A finite or infinite double as Python's repr prints it, with JSON's names for the infinite ones.
std::string PythonFloat(double value);

}  // namespace kimi_k3::text
