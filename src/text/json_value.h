// JSON whose numbers keep their digits and whose objects keep their order.
//
// The libraries at hand turn numbers into doubles or refuse the large ones, and refuse lone
// surrogates; a prompt must show both as the client wrote them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kimi_k3::text {

struct JsonMember;

// A number as it was written.
struct JsonNumber {
  std::string text;
  // No fraction and no exponent, and not NaN or Infinity.
  bool is_integer() const { return text.find_first_of(".eENI") == std::string::npos; }
};

// Strings are valid UTF-8. Nesting never exceeds kJsonDepthLimit, so recursion over values is safe.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;  // in source order

  JsonValue();  // null
  explicit JsonValue(bool value);
  explicit JsonValue(JsonNumber value);
  explicit JsonValue(std::string value);
  explicit JsonValue(Array value);
  explicit JsonValue(Object value);
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  bool is_null() const { return value_.index() == 0; }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const { return std::holds_alternative<JsonNumber>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Each requires the kind that it is named after.
  bool boolean() const { return std::get<bool>(value_); }
  const JsonNumber& number() const { return std::get<JsonNumber>(value_); }
  const std::string& string() const { return std::get<std::string>(value_); }
  const Array& items() const { return std::get<Array>(value_); }
  const Object& members() const { return std::get<Object>(value_); }

  // The member of that name; null where there is none or this is no object.
  const JsonValue* Find(std::string_view key) const;

  // "null", "boolean", "number", "string", "array" or "object".
  std::string_view TypeName() const;

 private:
  std::variant<std::monostate, bool, JsonNumber, std::string, Array, Object> value_;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

inline constexpr int kJsonDepthLimit = 128;

// What happens to a key that comes twice in an object.
enum class JsonDuplicates {
  kLastWins,  // the last value, at the place of the first, as in Python
  kRefused
};

// NaN, Infinity and -Infinity, which are not JSON but which Python reads.
enum class JsonNonFinite { kRefused, kAccepted };

struct JsonParseResult {
  std::optional<JsonValue> value;
  std::string error;      // says line, byte and what is wrong, where there is no value
  bool too_deep = false;  // the error is nesting beyond kJsonDepthLimit
};

// Parses one JSON text. Lone surrogates in escapes become U+FFFD; invalid UTF-8, a byte order mark
// and nesting beyond kJsonDepthLimit are errors. Never throws for bad input.
JsonParseResult ParseJson(std::string_view text,
                          JsonDuplicates duplicates = JsonDuplicates::kLastWins,
                          JsonNonFinite non_finite = JsonNonFinite::kRefused);

}  // namespace kimi_k3::text
