// Typed, checked access to the fields of a JSON object; what is wrong is listed, not thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/problem_list.h"

namespace kimi_k3 {

// What the absence of a field (or null) means.
enum class Presence { kRequired, kOptional };

// Bounds, both included.
struct SizeRange {
  uint64_t least = 1;
  uint64_t most = 1;
};
struct NumberRange {
  double least = 0;
  double most = 0;
};

// Reads one object. Every getter returns nothing where the field is absent or wrong; a wrong one,
// and a required one that is absent, adds a line to `problems` that names source, path and value.
// Holds references: object and problems must outlive it.
class ConfigFields {
 public:
  // path: the object's own place, "" at the top, else "text_config" and so on.
  ConfigFields(const nlohmann::json& object, std::string_view source, std::string_view path,
               ProblemList& problems);

  // A whole number written as one: 64, not 64.0, 6.4e1, "64" or true.
  std::optional<uint64_t> Size(std::string_view name, SizeRange range, Presence presence);
  std::optional<double> Number(std::string_view name, NumberRange range, Presence presence);
  std::optional<bool> Flag(std::string_view name, Presence presence);
  std::optional<std::string> Text(std::string_view name, Presence presence);
  // A list of whole numbers, each in `range`.
  std::optional<std::vector<uint64_t>> SizeList(std::string_view name, SizeRange range,
                                                Presence presence);
  // The value of an object field; null where it is absent or wrong.
  const nlohmann::json* Object(std::string_view name, Presence presence);

  // Adds a problem about a field: "source: path.name WHAT".
  void Refuse(std::string_view name, std::string_view what);

  std::string Path(std::string_view name) const;

 private:
  // The value, or null where it is absent or null; reports that where it is required.
  const nlohmann::json* Value(std::string_view name, Presence presence);
  void RefuseValue(std::string_view name, const nlohmann::json& value, std::string_view wanted);
  // A key of the object that looks like a misspelling of `name`, or empty.
  std::string NearName(std::string_view name) const;

  const nlohmann::json& object_;
  std::string source_;
  std::string path_;
  ProblemList& problems_;
};

// The value as JSON text, cut to fit a message.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace kimi_k3
