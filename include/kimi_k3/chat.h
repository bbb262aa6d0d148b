// A conversation and its rendering to the token ids of a Kimi K3 prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

enum class ChatRole { kSystem, kUser, kAssistant, kTool };
enum class ThinkingEffort { kLow, kHigh, kMax };
enum class ToolChoice { kAuto, kNone, kRequired };
enum class ResponseFormat { kText, kJsonObject, kJsonSchema };

// The part of an assistant message that text belongs to.
enum class Channel {
  kNone,     // between the channels: no tag is open
  kThink,    // reasoning
  kResponse  // the answer
};

// One call of a tool by the assistant.
struct ToolCall {
  std::string id;         // ties results to the call; never rendered
  std::string name;       // the function
  std::string arguments;  // JSON object text; blank means none; rendered raw where it is not JSON
};

// Text, or the place of an image.
struct ContentPart {
  bool is_image = false;
  std::string text;  // empty for an image
};

// One message of a conversation. Fields that do not belong to its role are ignored, except `tools`.
struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::vector<ContentPart> content;
  std::string name;                  // shown to the model where not empty
  std::string reasoning;             // assistant
  std::vector<ToolCall> tool_calls;  // assistant
  bool partial = false;              // assistant, last message: an answer to be continued
  std::string tool_call_id;          // tool: the id of the call that this is the result of
  std::string tool;                  // tool: name of the function where no id tells it
  std::string tools;                 // system: JSON array of further tools; replaces the content
  // assistant: where not empty, the ids of ChatParser::CompleteTurn for this message, generated
  // from the opening of generated_start on. They are rendered in place of reasoning, content and
  // calls (if the prompt would open the same channel), so that the prompt extends exactly what was
  // processed before; encoding the text again may give other ids.
  std::vector<TokenId> generated;
  Channel generated_start = Channel::kNone;

  static ChatMessage System(std::string text);
  static ChatMessage User(std::string text);
  static ChatMessage Assistant(std::string text, std::string reasoning = {});
};

// A prompt to be rendered; the defaults are the vendor's.
struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::string tools;  // JSON array in OpenAI's form; empty: none
  bool thinking = true;
  std::optional<ThinkingEffort> effort = ThinkingEffort::kMax;  // nothing: not mentioned
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;  // with kRequired: the one function to be called; never rendered
  ResponseFormat response_format = ResponseFormat::kText;
  std::string json_schema;  // JSON text, with kJsonSchema
  bool add_generation_prompt = true;
  // One prompt per image part or placeholder, in order of appearance; special names count in them.
  std::vector<std::string> image_prompts;
};

// Reads an OpenAI chat completion request (UTF-8 JSON): messages, tools, tool_choice,
// response_format, reasoning_effort, thinking, and chat_template_kwargs, whose entries (thinking,
// thinking_effort, add_generation_prompt, tools, tool_choice, response_format, image_prompts) win.
// Other fields are left to the caller. Numbers keep every digit, lone surrogates become U+FFFD.
// Throws Error(kUsage) that names the field, or line and byte of a JSON mistake.
ChatRequest ParseChatRequest(std::string_view request_json);

// A stretch of prompt text that is encoded by itself.
struct ChatSegment {
  std::string text;
  SpecialText special_text = SpecialText::kPlain;
  std::vector<TokenId> ids = {};  // where not empty, these stand in place of the text
  bool operator==(const ChatSegment&) const = default;
};

// The prompt as text segments. Only segments that this function itself writes (and image prompts)
// are kRecognised, so no text of a message, tool or schema can become a control token. Throws
// Error(kUsage) naming the message for what cannot be rendered: a tool result without a tool name,
// arguments that are JSON but no object, malformed tools, image counts that differ.
std::vector<ChatSegment> RenderChatSegments(const ChatRequest& request);

// A prompt ready for the model.
struct RenderedChat {
  std::vector<TokenId> ids;
  // ids.size() less the tokens of the opener that the vendor does not count as prompt.
  size_t usage_tokens = 0;
  // Where generation starts: the start state of the ChatParser.
  Channel start = Channel::kNone;
};

// Segments, each encoded by itself, joined. Throws as RenderChatSegments does.
RenderedChat RenderChat(const Tokenizer& tokenizer, const ChatRequest& request);

}  // namespace kimi_k3
