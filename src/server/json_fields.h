// Reads the fields of a JSON request strictly: what is there must be of the right type and range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/json_value.h"

namespace kimi_k3::server {

// Each throws ApiError(400) naming the field. A field that is absent or null has no value.

// The field where it is there and not null; else null.
const text::JsonValue* FindField(const text::JsonValue& object, std::string_view name);

std::optional<bool> BooleanField(const text::JsonValue& object, const std::string& name);
std::optional<std::string> StringField(const text::JsonValue& object, const std::string& name);

// A number from least to most.
std::optional<double> NumberField(const text::JsonValue& object, const std::string& name,
                                  double least, double most);

// A whole number from least to most, written without fraction or exponent.
std::optional<int64_t> IntegerField(const text::JsonValue& object, const std::string& name,
                                    int64_t least, int64_t most);

// A whole number that 64 bits hold with or without sign; negative ones wrap around.
std::optional<uint64_t> SeedField(const text::JsonValue& object, const std::string& name);

}  // namespace kimi_k3::server
