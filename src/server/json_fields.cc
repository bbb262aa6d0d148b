// Reads the fields of a JSON request strictly: what is there must be of the right type and range.
#include "server/json_fields.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

using text::JsonValue;

[[noreturn]] void RefuseType(const std::string& name, const char* wanted, const JsonValue& value) {
  throw ApiError(400, "invalid_type", name,
                 fmt::format("{}: must be {}, not {}", name, wanted, value.TypeName()));
}

template <typename T>
std::optional<T> ReadWhole(const std::string& text) {
  T value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// open: any number from `least` on will do.
template <typename T>
std::string RangeText(T least, T most, bool open) {
  return open ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most);
}

}  // namespace

const JsonValue* FindField(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> BooleanField(const JsonValue& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) RefuseType(name, "true or false", *value);
  return value->boolean();
}

std::optional<std::string> StringField(const JsonValue& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) RefuseType(name, "a string", *value);
  return value->string();
}

std::optional<double> NumberField(const JsonValue& object, const std::string& name, double least,
                                  double most) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) RefuseType(name, "a number", *value);
  const std::string& text = value->number().text;
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Too small for a double is as good as zero; too large is out of every range.
  if (status == std::errc::result_out_of_range) number = std::strtod(text.c_str(), nullptr);
  if (!(number >= least && number <= most)) {
    RefuseField(name, "must be a number {}, not {}",
                RangeText(least, most, most >= std::numeric_limits<float>::max()),
                text.substr(0, 40));
  }
  return number;
}

std::optional<int64_t> IntegerField(const JsonValue& object, const std::string& name, int64_t least,
                                    int64_t most) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) RefuseType(name, "a whole number", *value);
  const std::string& text = value->number().text;
  const std::optional<int64_t> number =
      value->number().is_integer() ? ReadWhole<int64_t>(text) : std::nullopt;
  if (!number || *number < least || *number > most) {
    RefuseField(name, "must be a whole number {}, not {}",
                RangeText(least, most, most == INT64_MAX), text.substr(0, 40));
  }
  return number;
}

std::optional<uint64_t> SeedField(const JsonValue& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) RefuseType(name, "a whole number", *value);
  const std::string& text = value->number().text;
  if (value->number().is_integer()) {
    if (const auto number = ReadWhole<uint64_t>(text)) return *number;
    if (const auto number = ReadWhole<int64_t>(text)) return static_cast<uint64_t>(*number);
  }
  RefuseField(name, "must be a whole number of 64 bits, not {}", text.substr(0, 40));
}

}  // namespace kimi_k3::server
