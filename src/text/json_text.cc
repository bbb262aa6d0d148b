// Writes JSON as Python's json.dumps(ensure_ascii=False) does.
#include "text/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace kimi_k3::text {
namespace {

class JsonWriter {
 public:
  JsonWriter(JsonSpacing spacing, JsonKeyOrder order)
      : comma_(spacing == JsonSpacing::kCompact ? "," : ", "),
        colon_(spacing == JsonSpacing::kCompact ? ":" : ": "),
        order_(order) {}

  void Write(const JsonValue& value) {
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_boolean()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.is_number()) {
      WriteNumber(value.number());
    } else if (value.is_string()) {
      AppendJsonString(value.string(), out_);
    } else if (value.is_array()) {
      WriteArray(value.items());
    } else {
      WriteObject(value.members());
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void WriteNumber(const JsonNumber& number) {
    if (!number.is_integer()) {
      out_ += number.text == "NaN" ? "NaN" : PythonFloat(std::strtod(number.text.c_str(), nullptr));
    } else {
      out_ += number.text == "-0" ? "0" : number.text;
    }
  }

  void WriteArray(const JsonValue::Array& items) {
    out_ += '[';
    std::string_view separator;
    for (const JsonValue& item : items) {
      out_ += separator;
      separator = comma_;
      Write(item);
    }
    out_ += ']';
  }

  void WriteObject(const JsonValue::Object& members) {
    std::vector<const JsonMember*> ordered;
    ordered.reserve(members.size());
    for (const JsonMember& member : members) ordered.push_back(&member);
    if (order_ == JsonKeyOrder::kSorted) {
      // Bytes of UTF-8 sort as code points do.
      std::sort(ordered.begin(), ordered.end(),
                [](const JsonMember* a, const JsonMember* b) { return a->key < b->key; });
    }
    out_ += '{';
    std::string_view separator;
    for (const JsonMember* member : ordered) {
      out_ += separator;
      separator = comma_;
      AppendJsonString(member->key, out_);
      out_ += colon_;
      Write(member->value);
    }
    out_ += '}';
  }

  std::string_view comma_;
  std::string_view colon_;
  JsonKeyOrder order_;
  std::string out_;
};

}  // namespace

std::string WriteJson(const JsonValue& value, JsonSpacing spacing, JsonKeyOrder order) {
  JsonWriter writer(spacing, order);
  writer.Write(value);
  return writer.Take();
}

void AppendJsonString(std::string_view string, std::string& out) {
  constexpr std::string_view kSpecials = "\"\\\n\r\t\b\f";
  constexpr std::string_view kEscapes = "\"\\nrtbf";
  out += '"';
  for (const char c : string) {
    const size_t which = kSpecials.find(c);
    if (which != std::string_view::npos) {
      out += '\\';
      out += kEscapes[which];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

// The shortest digits that read back as the same double; positional for decimal exponents from -4
// to 15, else scientific with at least two digits of exponent.
std::string PythonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char buffer[40];
  const auto scientific =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02}", text.substr(0, e), exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  const auto fixed =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace kimi_k3::text
