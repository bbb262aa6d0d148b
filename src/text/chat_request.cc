// Reads an OpenAI chat completion request; it comes from outside and is not trusted.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "kimi_k3/chat.h"
#include "text/json_text.h"
#include "text/json_value.h"
#include "text/python_text.h"

namespace kimi_k3 {
namespace {

using text::JsonValue;

std::string JsonText(const JsonValue& value) {
  return text::WriteJson(value, text::JsonSpacing::kSpaced);
}

[[noreturn]] void RefuseType(std::string_view where, std::string_view wanted,
                             const JsonValue& value) {
  Fail(ErrorKind::kUsage, "{}: must be {}, not {}", where, wanted, value.TypeName());
}

// A member that is there and not null.
const JsonValue* FindSet(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// The string of a member; empty where it is absent or null.
std::string StringOr(const JsonValue& object, std::string_view key, std::string_view where) {
  const JsonValue* value = FindSet(object, key);
  if (value == nullptr) return {};
  if (!value->is_string()) RefuseType(fmt::format("{}.{}", where, key), "a string", *value);
  return value->string();
}

bool BooleanOr(const JsonValue& object, std::string_view key, std::string_view where,
               bool default_value) {
  const JsonValue* value = FindSet(object, key);
  if (value == nullptr) return default_value;
  if (!value->is_boolean()) {
    RefuseType(fmt::format("{}.{}", where, key), "true or false", *value);
  }
  return value->boolean();
}

// Ids compare as strings; some clients number them.
std::string IdOr(const JsonValue& object, std::string_view key, std::string_view where) {
  const JsonValue* value = FindSet(object, key);
  if (value == nullptr) return {};
  if (value->is_number()) return JsonText(*value);
  return StringOr(object, key, where);
}

ContentPart ParsePart(const JsonValue& part, const std::string& where) {
  if (part.is_string()) return {false, part.string()};
  if (!part.is_object()) RefuseType(where, "an object", part);
  const std::string type = StringOr(part, "type", where);
  if (type == "image" || type == "image_url") return {true, {}};
  return {false, StringOr(part, "text", where)};
}

std::vector<ContentPart> ParseContent(const JsonValue& message, const std::string& where) {
  const JsonValue* content = FindSet(message, "content");
  if (content == nullptr) return {};
  if (content->is_string()) return {{false, content->string()}};
  if (!content->is_array()) {
    RefuseType(where + ".content", "a string or an array of parts", *content);
  }
  std::vector<ContentPart> parts;
  for (size_t i = 0; i < content->items().size(); ++i) {
    parts.push_back(ParsePart(content->items()[i], fmt::format("{}.content[{}]", where, i)));
  }
  return parts;
}

ToolCall ParseToolCall(const JsonValue& call, const std::string& where) {
  if (!call.is_object()) RefuseType(where, "an object", call);
  const JsonValue* function = FindSet(call, "function");
  if (function == nullptr || !function->is_object()) {
    Fail(ErrorKind::kUsage, "{}.function: must be an object with `name` and `arguments`", where);
  }
  ToolCall parsed;
  parsed.id = IdOr(call, "id", where);
  parsed.name = StringOr(*function, "name", where + ".function");
  if (parsed.name.empty()) Fail(ErrorKind::kUsage, "{}.function.name: is missing", where);
  const JsonValue* arguments = FindSet(*function, "arguments");
  if (arguments != nullptr) {
    parsed.arguments = arguments->is_string() ? arguments->string() : JsonText(*arguments);
  }
  return parsed;
}

std::vector<ToolCall> ParseToolCalls(const JsonValue& message, const std::string& where) {
  const JsonValue* calls = FindSet(message, "tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array()) RefuseType(where + ".tool_calls", "an array", *calls);
  std::vector<ToolCall> parsed;
  for (size_t i = 0; i < calls->items().size(); ++i) {
    parsed.push_back(ParseToolCall(calls->items()[i], fmt::format("{}.tool_calls[{}]", where, i)));
  }
  return parsed;
}

ChatRole ParseRole(const JsonValue& message, const std::string& where) {
  const std::string role = StringOr(message, "role", where);
  if (role == "system" || role == "developer") return ChatRole::kSystem;
  if (role == "user") return ChatRole::kUser;
  if (role == "assistant") return ChatRole::kAssistant;
  if (role == "tool") return ChatRole::kTool;
  Fail(ErrorKind::kUsage, "{}.role: must be system, developer, user, assistant or tool, not \"{}\"",
       where, role);
}

ChatMessage ParseMessage(const JsonValue& message, const std::string& where) {
  if (!message.is_object()) RefuseType(where, "an object", message);
  ChatMessage parsed;
  parsed.role = ParseRole(message, where);
  parsed.content = ParseContent(message, where);
  parsed.name = StringOr(message, "name", where);
  if (const JsonValue* tools = FindSet(message, "tools")) parsed.tools = JsonText(*tools);
  if (parsed.role == ChatRole::kAssistant) {
    parsed.reasoning = StringOr(message, "reasoning_content", where);
    if (text::IsBlank(parsed.reasoning)) parsed.reasoning = StringOr(message, "reasoning", where);
    parsed.tool_calls = ParseToolCalls(message, where);
    parsed.partial = BooleanOr(message, "partial", where, false);
  }
  if (parsed.role == ChatRole::kTool) {
    parsed.tool_call_id = IdOr(message, "tool_call_id", where);
    if (parsed.tool_call_id.empty()) parsed.tool_call_id = IdOr(message, "id", where);
    parsed.tool = StringOr(message, "tool", where);
  }
  if (parsed.role == ChatRole::kUser && FindSet(message, "content") == nullptr) {
    Fail(ErrorKind::kUsage, "{}.content: is missing", where);
  }
  return parsed;
}

ThinkingEffort ParseEffort(std::string_view effort, std::string_view where) {
  if (effort == "low") return ThinkingEffort::kLow;
  if (effort == "high") return ThinkingEffort::kHigh;
  if (effort == "max") return ThinkingEffort::kMax;
  Fail(ErrorKind::kUsage, "{}: must be low, high or max, not \"{}\"", where, effort);
}

// The API's field knows more words than the prompt; hosted services map them like this.
void ApplyApiEffort(std::string_view effort, std::string_view where, ChatRequest& request) {
  constexpr std::array<std::string_view, 6> kEfforts = {"none", "low",   "medium",
                                                        "high", "xhigh", "max"};
  if (std::ranges::find(kEfforts, effort) == kEfforts.end()) {
    Fail(ErrorKind::kUsage, "{}: must be {}, not \"{}\"", where, fmt::join(kEfforts, ", "), effort);
  }
  request.thinking = effort != "none";
  if (!request.thinking) return;
  if (effort == "medium") {
    request.effort = ThinkingEffort::kHigh;
  } else if (effort == "xhigh") {
    request.effort = ThinkingEffort::kMax;
  } else {
    request.effort = ParseEffort(effort, where);
  }
}

// {"type": "enabled", "effort": "high"}; its effort wins over reasoning_effort.
void ApplyThinkingObject(const JsonValue& thinking, ChatRequest& request) {
  if (!thinking.is_object()) RefuseType("thinking", "an object", thinking);
  const std::string effort = StringOr(thinking, "effort", "thinking");
  if (!effort.empty()) ApplyApiEffort(effort, "thinking.effort", request);
  const std::string type = StringOr(thinking, "type", "thinking");
  if (type == "disabled") {
    request.thinking = false;
  } else if (!type.empty() && type != "enabled") {
    Fail(ErrorKind::kUsage, "thinking.type: must be enabled or disabled, not \"{}\"", type);
  }
}

// {"type": "function", "function": {"name": ...}}: its name; empty where this is something else.
std::string ChosenFunction(const JsonValue& choice) {
  const JsonValue* function = choice.is_object() ? FindSet(choice, "function") : nullptr;
  if (function == nullptr || !function->is_object()) return {};
  return StringOr(*function, "name", "tool_choice.function");
}

void ApplyToolChoice(const JsonValue& choice, ChatRequest& request) {
  const std::string_view word = choice.is_string() ? std::string_view(choice.string()) : "";
  request.tool_name = ChosenFunction(choice);
  if (word == "auto") {
    request.tool_choice = ToolChoice::kAuto;
  } else if (word == "none") {
    request.tool_choice = ToolChoice::kNone;
  } else if (word == "required" || !request.tool_name.empty()) {
    request.tool_choice = ToolChoice::kRequired;
  } else {
    Fail(ErrorKind::kUsage,
         "tool_choice: must be \"auto\", \"none\", \"required\" or a named function, not {}",
         JsonText(choice));
  }
}

// The schema may be one or two levels below `json_schema`, or be it.
std::string SchemaText(const JsonValue& format) {
  const JsonValue* outer = FindSet(format, "json_schema");
  if (outer == nullptr || !outer->is_object()) {
    Fail(ErrorKind::kUsage, "response_format.json_schema: must be an object with a `schema`");
  }
  for (const std::string_view key : {"schema", "json_schema"}) {
    if (const JsonValue* inner = FindSet(*outer, key)) return JsonText(*inner);
  }
  return JsonText(*outer);
}

void ApplyResponseFormat(const JsonValue& format, ChatRequest& request) {
  if (!format.is_object()) RefuseType("response_format", "an object", format);
  const std::string type = StringOr(format, "type", "response_format");
  request.json_schema.clear();
  if (type == "text") {
    request.response_format = ResponseFormat::kText;
  } else if (type == "json_object") {
    request.response_format = ResponseFormat::kJsonObject;
  } else if (type == "json_schema") {
    request.response_format = ResponseFormat::kJsonSchema;
    request.json_schema = SchemaText(format);
  } else {
    Fail(ErrorKind::kUsage,
         "response_format.type: must be text, json_object or json_schema, not \"{}\"", type);
  }
}

// Fields that a request and its chat_template_kwargs have in common.
void ApplySharedFields(const JsonValue& object, ChatRequest& request) {
  if (const JsonValue* tools = FindSet(object, "tools")) request.tools = JsonText(*tools);
  if (const JsonValue* choice = FindSet(object, "tool_choice")) ApplyToolChoice(*choice, request);
  if (const JsonValue* format = FindSet(object, "response_format")) {
    ApplyResponseFormat(*format, request);
  }
}

void ApplyTemplateArguments(const JsonValue& arguments, ChatRequest& request) {
  constexpr std::string_view kWhere = "chat_template_kwargs";
  if (!arguments.is_object()) RefuseType(kWhere, "an object", arguments);
  ApplySharedFields(arguments, request);
  request.thinking = BooleanOr(arguments, "thinking", kWhere, request.thinking);
  request.add_generation_prompt =
      BooleanOr(arguments, "add_generation_prompt", kWhere, request.add_generation_prompt);
  if (const JsonValue* effort = arguments.Find("thinking_effort")) {
    request.effort.reset();  // null: no effort is mentioned
    const std::string word = StringOr(arguments, "thinking_effort", kWhere);
    if (!effort->is_null()) {
      request.effort = ParseEffort(word, "chat_template_kwargs.thinking_effort");
    }
  }
  const JsonValue* prompts = FindSet(arguments, "image_prompts");
  if (prompts == nullptr) return;
  if (!prompts->is_array()) {
    RefuseType("chat_template_kwargs.image_prompts", "an array of strings", *prompts);
  }
  for (const JsonValue& prompt : prompts->items()) {
    if (!prompt.is_string()) {
      RefuseType("chat_template_kwargs.image_prompts", "an array of strings", prompt);
    }
    request.image_prompts.push_back(prompt.string());
  }
}

}  // namespace

ChatRequest ParseChatRequest(std::string_view request_json) {
  const text::JsonParseResult parsed = text::ParseJson(request_json);
  if (!parsed.value) Fail(ErrorKind::kUsage, "the request is {}", parsed.error);
  const JsonValue& root = *parsed.value;
  if (!root.is_object()) RefuseType("the request", "a JSON object", root);
  const JsonValue* messages = FindSet(root, "messages");
  if (messages == nullptr) Fail(ErrorKind::kUsage, "messages: is missing");
  if (!messages->is_array()) RefuseType("messages", "an array", *messages);
  ChatRequest request;
  for (size_t i = 0; i < messages->items().size(); ++i) {
    request.messages.push_back(ParseMessage(messages->items()[i], fmt::format("messages[{}]", i)));
  }
  ApplySharedFields(root, request);
  const std::string effort = StringOr(root, "reasoning_effort", "the request");
  if (!effort.empty()) ApplyApiEffort(effort, "reasoning_effort", request);
  if (const JsonValue* thinking = FindSet(root, "thinking")) {
    ApplyThinkingObject(*thinking, request);
  }
  if (const JsonValue* arguments = FindSet(root, "chat_template_kwargs")) {
    ApplyTemplateArguments(*arguments, request);
  }
  return request;
}

}  // namespace kimi_k3
