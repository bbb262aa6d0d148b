// Renders a conversation as a Kimi K3 prompt (docs/text.md).
#include "kimi_k3/chat.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "text/json_text.h"
#include "text/json_value.h"
#include "text/message_order.h"
#include "text/python_text.h"
#include "text/segment_writer.h"

namespace kimi_k3 {
namespace {

using text::Attribute;
using text::JsonValue;

std::string_view EffortName(ThinkingEffort effort) {
  switch (effort) {
    case ThinkingEffort::kLow:
      return "low";
    case ThinkingEffort::kHigh:
      return "high";
    case ThinkingEffort::kMax:
      break;
  }
  return "max";
}

std::string_view RoleName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      break;
  }
  return "tool";
}

// Parses JSON that a field holds; `where` names the field.
JsonValue ParseField(std::string_view json, std::string_view where) {
  text::JsonParseResult parsed = text::ParseJson(json);
  if (!parsed.value) Fail(ErrorKind::kUsage, "{}: {}", where, parsed.error);
  return std::move(*parsed.value);
}

std::string SortedCompact(const JsonValue& value) {
  return text::WriteJson(value, text::JsonSpacing::kCompact, text::JsonKeyOrder::kSorted);
}

std::string JsonBlock(std::string_view json) { return fmt::format("```json\n{}\n```", json); }

ChatMessage TextMessage(ChatRole role, std::string text) {
  ChatMessage message;
  message.role = role;
  message.content.push_back({false, std::move(text)});
  return message;
}

// Writes one prompt, message by message.
class ChatRenderer {
 public:
  explicit ChatRenderer(const ChatRequest& request)
      : request_(request), writer_(request.image_prompts) {}

  std::vector<ChatSegment> Render() {
    CheckDeclarations();
    if (has_tools_) {
      SystemNote("tool-declare",
                 "# Tools\nHere are the available tools, described in JSONSchema.\n\n" +
                     ToolsBlock(request_.tools, "tools"));
    }
    if (request_.thinking && request_.effort) EffortNote(*request_.effort);
    const bool is_prefill = !request_.messages.empty() && IsPartial(request_.messages.back());
    for (const text::PlacedMessage& placed : text::ArrangeMessages(request_.messages)) {
      const bool is_last = placed.source_index + 1 == request_.messages.size();
      if (!(is_prefill && is_last)) Message(placed);
    }
    ToolChoiceNote();
    ResponseFormatNote();
    if (is_prefill) {
      Prefill(request_.messages.back());
    } else if (request_.add_generation_prompt) {
      writer_.OpenTag("message", {{"role", "assistant"}});
      open_channel_ = request_.thinking ? Channel::kThink : Channel::kResponse;
      OpenChannel(open_channel_);
      uncounted_segments_ = 3;  // of the channel's opening tag
    }
    return writer_.Take();
  }

  // After Render: the channel that is open at the end, and how many segments at the end the vendor
  // does not count as prompt.
  Channel open_channel() const { return open_channel_; }
  size_t uncounted_segments() const { return uncounted_segments_; }

 private:
  static bool IsPartial(const ChatMessage& message) {
    return message.role == ChatRole::kAssistant && message.partial;
  }

  // Empty text and an empty array both declare nothing.
  static bool DeclaresTools(const std::string& tools, std::string_view where) {
    if (tools.empty()) return false;
    const JsonValue value = ParseField(tools, where);
    if (!value.is_array()) {
      Fail(ErrorKind::kUsage, "{}: must be an array of tools, not {}", where, value.TypeName());
    }
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (!value.items()[i].is_object()) {
        Fail(ErrorKind::kUsage, "{}[{}]: must be an object, not {}", where, i,
             value.items()[i].TypeName());
      }
    }
    return !value.items().empty();
  }

  void CheckDeclarations() {
    has_tools_ = DeclaresTools(request_.tools, "tools");
    bool has_any = has_tools_;
    for (size_t i = 0; i < request_.messages.size(); ++i) {
      const ChatMessage& message = request_.messages[i];
      const std::string where = fmt::format("messages[{}].tools", i);
      const bool declares = DeclaresTools(message.tools, where);
      declares_tools_.push_back(declares);
      has_any = has_any || declares;
      if (!declares) continue;
      if (message.role != ChatRole::kSystem) {
        Fail(ErrorKind::kUsage, "{}: only a system message can declare tools", where);
      }
      for (const ContentPart& part : message.content) {
        if (part.is_image || !part.text.empty()) {
          Fail(ErrorKind::kUsage,
               "{}: a system message that declares tools must have no content; put the text into a "
               "message of its own",
               where);
        }
      }
    }
    if (request_.tool_choice == ToolChoice::kRequired && !has_any) {
      Fail(ErrorKind::kUsage, "tool_choice: `required` needs at least one tool in `tools`");
    }
  }

  static std::string ToolsBlock(const std::string& tools, std::string_view where) {
    return JsonBlock(SortedCompact(ParseField(tools, where)));
  }

  void SystemNote(std::string_view type, std::string_view body) {
    writer_.OpenTag("message", {{"role", "system"}, {"type", type}});
    writer_.Body(body);
    CloseMessage();
  }

  void CloseMessage() {
    writer_.CloseTag("message");
    writer_.EndMessage();
  }

  void EffortNote(ThinkingEffort effort) {
    SystemNote("thinking-effort",
               fmt::format("`thinking_effort` guides on how much to think in your thinking channel "
                           "(not including the response channel), supported values include `low`, "
                           "`medium`, `high`, and `max`.\n"
                           "Now the system is invoked with `thinking_effort={}`.",
                           EffortName(effort)));
  }

  void ToolChoiceNote() {
    if (request_.tool_choice == ToolChoice::kAuto) return;
    const bool required = request_.tool_choice == ToolChoice::kRequired;
    SystemNote("tool-choice",
               fmt::format("The system is invoked with `tool_choice={}`.\n"
                           "You MUST {} tools in the next message.",
                           required ? "required" : "none", required ? "call" : "NOT call any"));
  }

  void ResponseFormatNote() {
    if (request_.response_format == ResponseFormat::kText) return;
    const bool has_schema = request_.response_format == ResponseFormat::kJsonSchema;
    std::string body = fmt::format(
        "The system is invoked with `response_format={}`.\n"
        "Your response must be raw JSON data without markdown code blocks (```json) or "
        "any additional formatting.",
        has_schema ? "json_schema" : "json_object");
    if (has_schema) {
      body += "\nThe JSON data must match the following schema:\n" +
              JsonBlock(SortedCompact(ParseField(request_.json_schema, "response_format")));
    }
    SystemNote("response-format", body);
  }

  void Message(const text::PlacedMessage& placed) {
    const ChatMessage& message = *placed.message;
    if (declares_tools_[placed.source_index]) {
      const std::string where = fmt::format("messages[{}].tools", placed.source_index);
      SystemNote("tool-declare",
                 "## New Tools Available\n"
                 "The system dynamically extends the toolset via lazy-loading.\n"
                 "You have access to all existing and extended tools.\n"
                 "Here are the specs for the extended tools.\n\n" +
                     ToolsBlock(message.tools, where));
      return;
    }
    if (message.role == ChatRole::kTool) {
      const std::string index = std::to_string(placed.tool_index);
      writer_.OpenTag("message", {{"role", "tool"}, {"tool", placed.tool_name}, {"index", index}});
      Content(message);
    } else {
      OpenMessage(message);
      if (IsReplay(message)) {
        OpenChannel(message.generated_start);
        writer_.Ids(message.generated);
        return;
      }
      if (message.role == ChatRole::kAssistant) {
        AssistantChannels(message, placed.source_index);
      } else {
        Content(message);
      }
    }
    CloseMessage();
  }

  void OpenMessage(const ChatMessage& message) {
    std::vector<Attribute> attributes = {{"role", RoleName(message.role)}};
    if (!message.name.empty()) attributes.push_back({"name", message.name});
    writer_.OpenTag("message", attributes);
  }

  void Content(const ChatMessage& message) {
    for (const ContentPart& part : message.content) {
      if (part.is_image) {
        writer_.Image();
      } else {
        writer_.Body(part.text);
      }
    }
  }

  // Whether the message is rendered from its generated ids, which include its end.
  bool IsReplay(const ChatMessage& message) const {
    const Channel start = request_.thinking ? Channel::kThink : Channel::kResponse;
    return message.role == ChatRole::kAssistant && !message.generated.empty() &&
           message.generated_start == start;
  }

  // Reasoning that is only white space counts as none.
  static std::string_view ReasoningOf(const ChatMessage& message) {
    return text::IsBlank(message.reasoning) ? std::string_view() : message.reasoning;
  }

  void AssistantChannels(const ChatMessage& message, size_t source_index) {
    if (request_.thinking) {
      writer_.OpenTag("think");
      writer_.Body(ReasoningOf(message));
      writer_.CloseTag("think");
    }
    writer_.OpenTag("response");
    Content(message);
    writer_.CloseTag("response");
    if (message.tool_calls.empty()) return;
    writer_.OpenTag("tools");
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      const ToolCall& call = message.tool_calls[i];
      const std::string index = std::to_string(i + 1);
      writer_.OpenTag("call", {{"tool", call.name}, {"index", index}});
      Arguments(call, fmt::format("messages[{}].tool_calls[{}]", source_index, i));
      writer_.CloseTag("call");
    }
    writer_.CloseTag("tools");
  }

  void Arguments(const ToolCall& call, std::string_view where) {
    if (text::IsBlank(call.arguments)) return;
    const text::JsonParseResult parsed = text::ParseJson(
        call.arguments, text::JsonDuplicates::kLastWins, text::JsonNonFinite::kAccepted);
    if (parsed.too_deep) Fail(ErrorKind::kUsage, "{}: arguments: {}", where, parsed.error);
    if (!parsed.value) {
      writer_.OpenTag("json", {{"type", "object"}});
      writer_.Body(call.arguments);
      writer_.CloseTag("json");
      return;
    }
    if (!parsed.value->is_object()) {
      Fail(ErrorKind::kUsage, "{}: the arguments must be a JSON object, not {}", where,
           parsed.value->TypeName());
    }
    for (const text::JsonMember& argument : parsed.value->members()) {
      writer_.OpenTag("argument", {{"key", argument.key}, {"type", argument.value.TypeName()}});
      if (argument.value.is_string()) {
        writer_.Body(argument.value.string());
      } else {
        writer_.Body(text::WriteJson(argument.value, text::JsonSpacing::kSpaced));
      }
      writer_.CloseTag("argument");
    }
  }

  // An answer to be continued: its last channel stays open.
  void Prefill(const ChatMessage& message) {
    if (!message.tool_calls.empty()) {
      Fail(ErrorKind::kUsage, "messages[{}]: a partial message cannot have tool calls",
           request_.messages.size() - 1);
    }
    const std::string_view reasoning =
        request_.thinking ? ReasoningOf(message) : std::string_view();
    OpenMessage(message);
    if (!reasoning.empty()) {
      open_channel_ = Channel::kThink;
      OpenChannel(open_channel_);
      writer_.Body(reasoning);
    }
    if (HasContent(message)) {
      if (!reasoning.empty()) writer_.CloseTag("think");
      open_channel_ = Channel::kResponse;
      OpenChannel(open_channel_);
      Content(message);
    }
  }

  void OpenChannel(Channel channel) {
    writer_.OpenTag(channel == Channel::kThink ? "think" : "response");
  }

  static bool HasContent(const ChatMessage& message) {
    for (const ContentPart& part : message.content) {
      if (part.is_image || !part.text.empty()) return true;
    }
    return false;
  }

  const ChatRequest& request_;
  text::SegmentWriter writer_;
  Channel open_channel_ = Channel::kNone;
  size_t uncounted_segments_ = 0;
  bool has_tools_ = false;
  std::vector<bool> declares_tools_;  // by message
};

}  // namespace

ChatMessage ChatMessage::System(std::string text) {
  return TextMessage(ChatRole::kSystem, std::move(text));
}

ChatMessage ChatMessage::User(std::string text) {
  return TextMessage(ChatRole::kUser, std::move(text));
}

ChatMessage ChatMessage::Assistant(std::string text, std::string reasoning) {
  ChatMessage message = TextMessage(ChatRole::kAssistant, std::move(text));
  message.reasoning = std::move(reasoning);
  return message;
}

std::vector<ChatSegment> RenderChatSegments(const ChatRequest& request) {
  return ChatRenderer(request).Render();
}

RenderedChat RenderChat(const Tokenizer& tokenizer, const ChatRequest& request) {
  ChatRenderer renderer(request);
  const std::vector<ChatSegment> segments = renderer.Render();
  RenderedChat rendered;
  rendered.start = renderer.open_channel();
  const size_t counted = segments.size() - renderer.uncounted_segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    const ChatSegment& segment = segments[i];
    if (segment.ids.empty()) {
      tokenizer.Encode(segment.text, segment.special_text, rendered.ids);
    } else {
      rendered.ids.insert(rendered.ids.end(), segment.ids.begin(), segment.ids.end());
    }
    if (i < counted) rendered.usage_tokens = rendered.ids.size();
  }
  return rendered;
}

}  // namespace kimi_k3
