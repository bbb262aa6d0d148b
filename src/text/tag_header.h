// The inside of a generated tag: its name and attributes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kimi_k3::text {

// ` name="value"` pairs after the tag's name, values unescaped.
struct TagHeader {
  std::string tag;
  std::vector<std::pair<std::string, std::string>> attributes;

  // The value of the first attribute of that name.
  std::optional<std::string> Attribute(std::string_view name) const;
};

// Reads what stands between an opening (or closing) control token and <|sep|>. Attributes that are
// not of the form above, and all after them, are left out. The result is valid UTF-8.
TagHeader ParseTagHeader(std::string_view bytes);

}  // namespace kimi_k3::text
