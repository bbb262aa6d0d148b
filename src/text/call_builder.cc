// Collects one tool call of the model while its parts arrive.
#include "text/call_builder.h"

#include "kimi_k3/utf8.h"
#include "text/json_text.h"
#include "text/json_value.h"
#include "text/python_text.h"

namespace kimi_k3::text {

std::string ArgumentJson(std::string_view bytes, const std::optional<std::string>& type) {
  std::string value = ReplaceInvalidUtf8(bytes);
  const bool is_string = !type || *type == "string";
  if (!is_string && ParseJson(value).value) return value;
  std::string quoted;
  AppendJsonString(value, quoted);
  return quoted;
}

void CallBuilder::AddArgument(std::string key, std::string json) {
  for (auto& [known_key, known_json] : arguments_) {
    if (known_key == key) {
      known_json = std::move(json);
      return;
    }
  }
  arguments_.emplace_back(std::move(key), std::move(json));
}

void CallBuilder::SetJsonBlock(std::string_view bytes) { json_block_ = ReplaceInvalidUtf8(bytes); }

std::optional<ToolCall> CallBuilder::Build() const {
  if (name_.empty()) return std::nullopt;
  ToolCall call;
  call.name = name_;
  if (json_block_ && !IsBlank(*json_block_)) {
    call.arguments = *json_block_;
    return call;
  }
  call.arguments += '{';
  std::string_view separator;
  for (const auto& [key, json] : arguments_) {
    call.arguments += separator;
    separator = ", ";
    AppendJsonString(key, call.arguments);
    call.arguments += ": ";
    call.arguments += json;
  }
  call.arguments += '}';
  return call;
}

}  // namespace kimi_k3::text
