// Collects one tool call of the model while its parts arrive.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kimi_k3/chat.h"

namespace kimi_k3::text {

// The value of a generated argument as JSON text: a string for type "string", for no type and for
// whatever is not valid JSON; else the bytes as they are. Invalid UTF-8 is replaced.
std::string ArgumentJson(std::string_view bytes, const std::optional<std::string>& type);

class CallBuilder {
 public:
  explicit CallBuilder(std::string name) : name_(std::move(name)) {}

  // An argument that comes again replaces the first and keeps its place.
  void AddArgument(std::string key, std::string json);

  // A block that holds the whole arguments; it wins over single ones and is passed on as it is.
  void SetJsonBlock(std::string_view bytes);

  // The call, its id left empty; nothing where it has no name.
  std::optional<ToolCall> Build() const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, std::string>> arguments_;
  std::optional<std::string> json_block_;
};

}  // namespace kimi_k3::text
