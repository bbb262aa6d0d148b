// Typed, checked access to the fields of a JSON object; what is wrong is listed, not thrown.
#include "checkpoint/config_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kimi_k3 {
namespace {

// Letters to add, drop or change to make `b` of `a`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

// The value where it is a whole number of at least 0, written as one.
std::optional<uint64_t> WholeNumber(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer() && value.get<int64_t>() >= 0) return value.get<uint64_t>();
  return std::nullopt;
}

// A bound as people write it: 16777216, 0.001, 1e+06.
std::string NumberText(double value) { return fmt::format("{:g}", value); }

}  // namespace

std::string JsonExcerpt(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  return Printable(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), 60);
}

ConfigFields::ConfigFields(const nlohmann::json& object, std::string_view source,
                           std::string_view path, ProblemList& problems)
    : object_(object), source_(source), path_(path), problems_(problems) {}

std::string ConfigFields::Path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void ConfigFields::Refuse(std::string_view name, std::string_view what) {
  problems_.Add("{}: {} {}", source_, Path(name), what);
}

void ConfigFields::RefuseValue(std::string_view name, const nlohmann::json& value,
                               std::string_view wanted) {
  Refuse(name, fmt::format("is {}; it must be {}", JsonExcerpt(value), wanted));
}

std::string ConfigFields::NearName(std::string_view name) const {
  constexpr size_t kLongestKey = 64;
  constexpr size_t kFarthest = 3;
  std::string nearest;
  size_t least = kFarthest + 1;
  for (const auto& [key, value] : object_.items()) {
    if (key == name || key.size() > kLongestKey) continue;
    const size_t distance = EditDistance(name, key);
    if (distance < least && distance * 3 < name.size()) {
      least = distance;
      nearest = key;
    }
  }
  return nearest;
}

const nlohmann::json* ConfigFields::Value(std::string_view name, Presence presence) {
  const auto found = object_.find(name);
  if (found != object_.end() && !found->is_null()) return &*found;
  if (presence == Presence::kOptional) {
    // Absence has a meaning here, and a misspelling would be taken for it.
    for (const auto& [key, value] : object_.items()) {
      if (found != object_.end() || EditDistance(name, key) != 1) continue;
      Refuse(name, fmt::format("is missing, but there is {}: is that meant?", Printable(key)));
    }
    return nullptr;
  }
  const std::string_view state = found == object_.end() ? "is missing" : "is null";
  const std::string near = NearName(name);
  Refuse(name, near.empty() ? fmt::format("{}; the arithmetic depends on it", state)
                            : fmt::format("{}; the arithmetic depends on it (is {} meant?)", state,
                                          Printable(near)));
  return nullptr;
}

std::optional<uint64_t> ConfigFields::Size(std::string_view name, SizeRange range,
                                           Presence presence) {
  const nlohmann::json* value = Value(name, presence);
  if (value == nullptr) return std::nullopt;
  const auto size = WholeNumber(*value);
  if (size && *size >= range.least && *size <= range.most) return size;
  RefuseValue(name, *value, fmt::format("a whole number from {} to {}", range.least, range.most));
  return std::nullopt;
}

std::optional<double> ConfigFields::Number(std::string_view name, NumberRange range,
                                           Presence presence) {
  const nlohmann::json* value = Value(name, presence);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (std::isfinite(number) && number >= range.least && number <= range.most) return number;
  }
  RefuseValue(
      name, *value,
      fmt::format("a number from {} to {}", NumberText(range.least), NumberText(range.most)));
  return std::nullopt;
}

std::optional<bool> ConfigFields::Flag(std::string_view name, Presence presence) {
  const nlohmann::json* value = Value(name, presence);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  RefuseValue(name, *value, "true or false");
  return std::nullopt;
}

std::optional<std::string> ConfigFields::Text(std::string_view name, Presence presence) {
  const nlohmann::json* value = Value(name, presence);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  RefuseValue(name, *value, "a string");
  return std::nullopt;
}

std::optional<std::vector<uint64_t>> ConfigFields::SizeList(std::string_view name, SizeRange range,
                                                            Presence presence) {
  const nlohmann::json* value = Value(name, presence);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) {
    RefuseValue(name, *value, "a list of whole numbers");
    return std::nullopt;
  }
  std::vector<uint64_t> sizes;
  for (const nlohmann::json& element : *value) {
    const auto size = WholeNumber(element);
    if (!size || *size < range.least || *size > range.most) {
      Refuse(name, fmt::format("holds {}; each must be a whole number from {} to {}",
                               JsonExcerpt(element), range.least, range.most));
      return std::nullopt;
    }
    sizes.push_back(*size);
  }
  return sizes;
}

const nlohmann::json* ConfigFields::Object(std::string_view name, Presence presence) {
  const nlohmann::json* value = Value(name, presence);
  if (value == nullptr || value->is_object()) return value;
  RefuseValue(name, *value, "an object");
  return nullptr;
}

}  // namespace kimi_k3
