// Parses JSON without losing digits, order or the process to deep nesting.
#include "text/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "text/code_point.h"

namespace kimi_k3::text {
namespace {

constexpr char32_t kReplacementCharacter = 0xFFFD;

bool IsHighSurrogate(char32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool IsLowSurrogate(char32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Recursive descent; every method returns false once an error is recorded.
class JsonParser {
 public:
  JsonParser(std::string_view text, JsonDuplicates duplicates, JsonNonFinite non_finite)
      : text_(text), duplicates_(duplicates), non_finite_(non_finite) {}

  JsonParseResult Parse() {
    JsonParseResult result;
    JsonValue value;
    if (CheckEncoding() && ParseValue(value) && CheckEnd()) {
      result.value = std::move(value);
    } else {
      result.error = std::move(error_);
      result.too_deep = too_deep_;
    }
    return result;
  }

 private:
  bool CheckEncoding() {
    if (text_.starts_with("\xEF\xBB\xBF")) {
      return FailAt(0, "the text starts with a byte order mark; send plain UTF-8");
    }
    const size_t valid = ValidUtf8Prefix(text_);
    return valid == text_.size() || FailAt(valid, "the text is not valid UTF-8");
  }

  bool CheckEnd() {
    SkipSpace();
    return position_ == text_.size() || FailHere("more text after the end of the JSON value");
  }

  bool ParseValue(JsonValue& out) {
    SkipSpace();
    switch (Peek()) {
      case '{':
        return ParseNested(out, &JsonParser::ParseObject);
      case '[':
        return ParseNested(out, &JsonParser::ParseArray);
      case '"': {
        std::string string;
        if (!ParseString(string)) return false;
        out = JsonValue(std::move(string));
        return true;
      }
      default:
        return ParseWord(out) || (error_.empty() && ParseNumber(out));
    }
  }

  bool ParseNested(JsonValue& out, bool (JsonParser::*parse)(JsonValue&)) {
    if (depth_ == kJsonDepthLimit) {
      too_deep_ = true;
      return FailHere(fmt::format("nested deeper than {} levels", kJsonDepthLimit));
    }
    ++depth_;
    const bool ok = (this->*parse)(out);
    --depth_;
    return ok;
  }

  bool ParseArray(JsonValue& out) {
    ++position_;
    JsonValue::Array items;
    SkipSpace();
    bool more = Peek() != ']';
    while (more) {
      if (!ParseValue(items.emplace_back()) || !ParseSeparator(']', more)) return false;
    }
    ++position_;
    out = JsonValue(std::move(items));
    return true;
  }

  bool ParseObject(JsonValue& out) {
    ++position_;
    JsonValue::Object members;
    SkipSpace();
    bool more = Peek() != '}';
    while (more) {
      SkipSpace();
      if (Peek() != '"') return FailHere("expected a key in double quotes");
      JsonMember& member = members.emplace_back();
      if (!ParseString(member.key)) return false;
      SkipSpace();
      if (Peek() != ':') return FailHere("expected ':' after the key");
      ++position_;
      if (!ParseValue(member.value) || !ParseSeparator('}', more)) return false;
    }
    ++position_;
    if (!MergeDuplicates(members)) return false;
    out = JsonValue(std::move(members));
    return true;
  }

  // Expects ',' (then sets more) or the closing bracket, which is left in place.
  bool ParseSeparator(char closing, bool& more) {
    SkipSpace();
    more = Peek() == ',';
    if (more) {
      ++position_;
      return true;
    }
    return Peek() == closing || FailHere(fmt::format("expected ',' or '{}'", closing));
  }

  bool MergeDuplicates(JsonValue::Object& members) {
    std::unordered_map<std::string_view, size_t> first_places;
    std::vector<bool> is_repeated(members.size());
    bool any = false;
    for (size_t i = 0; i < members.size(); ++i) {
      const auto [place, is_new] = first_places.emplace(members[i].key, i);
      if (is_new) continue;
      if (duplicates_ == JsonDuplicates::kRefused) {
        return FailHere(fmt::format("the object above has the key \"{}\" twice", members[i].key));
      }
      std::swap(members[place->second].value, members[i].value);
      is_repeated[i] = true;
      any = true;
    }
    if (!any) return true;
    JsonValue::Object kept;
    for (size_t i = 0; i < members.size(); ++i) {
      if (!is_repeated[i]) kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
    return true;
  }

  bool ParseString(std::string& out) {
    ++position_;
    for (;;) {
      const size_t plain_end = FindStringSpecial();
      out += text_.substr(position_, plain_end - position_);
      position_ = plain_end;
      if (position_ == text_.size()) return FailHere("the text ends inside a string");
      const char c = text_[position_];
      if (c == '"') {
        ++position_;
        return true;
      }
      if (c != '\\') {
        return FailHere(fmt::format("control character 0x{:02X} inside a string; escape it",
                                    static_cast<unsigned char>(c)));
      }
      if (!ParseEscape(out)) return false;
    }
  }

  // The next quote, backslash or control character.
  size_t FindStringSpecial() const {
    size_t i = position_;
    while (i < text_.size() && text_[i] != '"' && text_[i] != '\\' &&
           static_cast<unsigned char>(text_[i]) >= 0x20) {
      ++i;
    }
    return i;
  }

  bool ParseEscape(std::string& out) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char c = position_ + 1 < text_.size() ? text_[position_ + 1] : '\0';
    if (c == 'u') return ParseUnicodeEscape(out);
    const size_t which = c == '\0' ? std::string_view::npos : kEscapes.find(c);
    if (which == std::string_view::npos) {
      const std::string shown(ValidCharacterAt(position_ + 1));
      return FailHere(fmt::format(
          "unknown escape \\{} inside a string; a backslash itself is written \\\\", shown));
    }
    out += kMeanings[which];
    position_ += 2;
    return true;
  }

  bool ParseUnicodeEscape(std::string& out) {
    const std::optional<char32_t> unit = UnitAt(position_);
    if (!unit) return FailHere("expected four hexadecimal digits after \\u");
    position_ += 6;
    char32_t code_point = *unit;
    if (IsHighSurrogate(code_point)) {
      const std::optional<char32_t> low = UnitAt(position_);
      if (low && IsLowSurrogate(*low)) {
        position_ += 6;
        code_point = 0x10000 + ((code_point - 0xD800) << 10) + (*low - 0xDC00);
      }
    }
    const bool is_lone = IsHighSurrogate(code_point) || IsLowSurrogate(code_point);
    AppendUtf8(is_lone ? kReplacementCharacter : code_point, out);
    return true;
  }

  // The UTF-16 unit written as \uXXXX at a position.
  std::optional<char32_t> UnitAt(size_t position) const {
    const std::string_view escape = text_.substr(std::min(position, text_.size()), 6);
    if (escape.size() != 6 || !escape.starts_with("\\u")) return std::nullopt;
    char32_t unit = 0;
    for (const char c : escape.substr(2)) {
      const char lower = static_cast<char>(c | 0x20);
      if (IsDigit(c)) {
        unit = unit * 16 + static_cast<char32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        unit = unit * 16 + static_cast<char32_t>(lower - 'a' + 10);
      } else {
        return std::nullopt;
      }
    }
    return unit;
  }

  // true, false, null and, where accepted, the non-finite numbers.
  bool ParseWord(JsonValue& out) {
    if (Accept("true")) {
      out = JsonValue(true);
    } else if (Accept("false")) {
      out = JsonValue(false);
    } else if (Accept("null")) {
      out = JsonValue();
    } else {
      return non_finite_ == JsonNonFinite::kAccepted && ParseNonFinite(out);
    }
    return true;
  }

  bool ParseNonFinite(JsonValue& out) {
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (Accept(word)) {
        out = JsonValue(JsonNumber{std::string(word)});
        return true;
      }
    }
    return false;
  }

  bool ParseNumber(JsonValue& out) {
    const size_t start = position_;
    if (Peek() == '-') ++position_;
    if (!IsDigit(Peek())) {
      position_ = start;
      return FailHere(position_ == text_.size() ? "the text ends where a value is due"
                                                : "expected a value");
    }
    const bool leading_zero = Peek() == '0';
    const size_t digits_start = position_;
    SkipDigits();
    if (leading_zero && position_ - digits_start > 1) {
      return FailAt(start, "a number may not start with 0");
    }
    if (Peek() == '.') {
      ++position_;
      if (!IsDigit(Peek())) return FailHere("expected a digit after the decimal point");
      SkipDigits();
    }
    if (Peek() == 'e' || Peek() == 'E') {
      ++position_;
      if (Peek() == '+' || Peek() == '-') ++position_;
      if (!IsDigit(Peek())) return FailHere("expected a digit in the exponent");
      SkipDigits();
    }
    out = JsonValue(JsonNumber{std::string(text_.substr(start, position_ - start))});
    return true;
  }

  void SkipDigits() {
    while (IsDigit(Peek())) ++position_;
  }

  void SkipSpace() {
    while (position_ < text_.size() &&
           (Peek() == ' ' || Peek() == '\n' || Peek() == '\t' || Peek() == '\r')) {
      ++position_;
    }
  }

  // NUL at the end, which no rule accepts.
  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  bool Accept(std::string_view word) {
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  std::string_view ValidCharacterAt(size_t position) const {
    if (position >= text_.size()) return "";
    return text_.substr(position, CodePointAt(text_, position).size_bytes);
  }

  bool FailHere(std::string_view what) { return FailAt(position_, what); }

  bool FailAt(size_t position, std::string_view what) {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t last_line_end = before.rfind('\n');
    const size_t column =
        last_line_end == std::string_view::npos ? position + 1 : position - last_line_end;
    error_ = fmt::format("not valid JSON: line {}, column {} (byte {}): {}", line, column, position,
                         what);
    return false;
  }

  std::string_view text_;
  JsonDuplicates duplicates_;
  JsonNonFinite non_finite_;
  size_t position_ = 0;
  int depth_ = 0;
  bool too_deep_ = false;
  std::string error_;
};

}  // namespace

JsonValue::JsonValue() = default;
JsonValue::JsonValue(bool value) : value_(value) {}
JsonValue::JsonValue(JsonNumber value) : value_(std::move(value)) {}
JsonValue::JsonValue(std::string value) : value_(std::move(value)) {}
JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;
JsonValue::JsonValue(Array value) : value_(std::move(value)) {}
JsonValue::JsonValue(Object value) : value_(std::move(value)) {}

const JsonValue* JsonValue::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const JsonMember& member : members()) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::string_view JsonValue::TypeName() const {
  constexpr std::string_view kNames[] = {"null", "boolean", "number", "string", "array", "object"};
  return kNames[value_.index()];
}

JsonParseResult ParseJson(std::string_view text, JsonDuplicates duplicates,
                          JsonNonFinite non_finite) {
  return JsonParser(text, duplicates, non_finite).Parse();
}

}  // namespace kimi_k3::text
