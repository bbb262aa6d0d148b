// Reading the keywords of JSON schemas.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/number_range.h"
#include "grammar/schema_rules.h"
#include "text/json_value.h"

namespace kimi_k3::grammar {

// Throws Error(kUsage): "PATH: ...".
template <typename... Args>
[[noreturn]] void RefuseSchema(const std::string& path, fmt::format_string<Args...> format,
                               Args&&... args) {
  Fail(ErrorKind::kUsage, "{}: {}", path, fmt::format(format, std::forward<Args>(args)...));
}

// Throws where a member of the schema is a keyword that would change what is valid and that is not
// supported, also for those beside enum, const, anyOf, oneOf, allOf and $ref.
void CheckKeywords(const text::JsonValue& schema, const std::string& path);

// The types that `type` names, or those that the other keywords are about; all where nothing tells.
Types TypesOf(const text::JsonValue& schema, const std::string& path);

// The type of a value.
Types TypeOf(const text::JsonValue& value);

// A keyword whose value is a count.
std::optional<size_t> CountOf(const text::JsonValue& schema, const std::string& keyword,
                              const std::string& path);

// minimum, maximum, exclusiveMinimum and exclusiveMaximum.
NumberRange RangeOf(const text::JsonValue& schema, const std::string& path, bool whole);

// The regular expression that a `format` stands for.
std::string_view PatternOfFormat(const std::string& format, const std::string& path);

// Throws where two of the alternatives, which are resolved, may have a value in common: types tell
// them apart, or a required property with different values.
void RefuseOverlap(const std::vector<const text::JsonValue*>& alternatives,
                   const std::string& path);

// A value of a schema as the grammar writes it: compact, numbers as they were written.
std::string WriteValue(const text::JsonValue& value);

}  // namespace kimi_k3::grammar
