// What the program keeps in a session beside tokens and state: the conversation, the answer on its
// way, and how it is sampled.
#include "cli/session_note.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::ordered_json;

template <typename T, size_t n>
std::string NameOf(T value, const std::pair<T, const char*> (&names)[n]) {
  for (const auto& [named, name] : names) {
    if (named == value) return name;
  }
  Fail(ErrorKind::kRun, "a value without a name");
}

template <typename T, size_t n>
T ValueOf(const std::string& text, const std::pair<T, const char*> (&names)[n]) {
  for (const auto& [value, name] : names) {
    if (text == name) return value;
  }
  Fail(ErrorKind::kIo, "\"{}\" is unknown", text.substr(0, 40));
}

constexpr std::pair<ChatRole, const char*> kRoles[] = {{ChatRole::kSystem, "system"},
                                                       {ChatRole::kUser, "user"},
                                                       {ChatRole::kAssistant, "assistant"},
                                                       {ChatRole::kTool, "tool"}};
constexpr std::pair<Channel, const char*> kChannels[] = {
    {Channel::kNone, "none"}, {Channel::kThink, "think"}, {Channel::kResponse, "response"}};
constexpr std::pair<ThinkingEffort, const char*> kEfforts[] = {
    {ThinkingEffort::kLow, "low"}, {ThinkingEffort::kHigh, "high"}, {ThinkingEffort::kMax, "max"}};

// Numbers as they were written: not what nlohmann-json would make of a fraction or another sign.
uint64_t Count(const Json& json, const char* key) {
  const Json& number = json.at(key);
  if (!number.is_number_unsigned()) Fail(ErrorKind::kIo, "\"{}\" is no count", key);
  return number;
}

std::vector<TokenId> Tokens(const Json& json, const char* key) {
  std::vector<TokenId> tokens;
  for (const Json& number : json.at(key)) {
    if (!number.is_number_unsigned() || number > std::numeric_limits<TokenId>::max()) {
      Fail(ErrorKind::kIo, "\"{}\" holds what is no token", key);
    }
    tokens.push_back(number);
  }
  return tokens;
}

Json MessageJson(const ChatMessage& message) {
  std::string content;
  for (const ContentPart& part : message.content) content += part.text;
  Json json = {{"role", NameOf(message.role, kRoles)}, {"content", content}};
  if (message.role != ChatRole::kAssistant) return json;
  json["reasoning"] = message.reasoning;
  Json calls = Json::array();
  for (const ToolCall& call : message.tool_calls) {
    calls.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
  json["tool_calls"] = calls;
  json["generated"] = message.generated;
  json["generated_start"] = NameOf(message.generated_start, kChannels);
  return json;
}

ChatMessage MessageOf(const Json& json) {
  ChatMessage message;
  message.role = ValueOf(json.at("role").get<std::string>(), kRoles);
  message.content = {{.is_image = false, .text = json.at("content")}};
  if (message.role != ChatRole::kAssistant) return message;
  message.reasoning = json.at("reasoning");
  for (const Json& call : json.at("tool_calls")) {
    message.tool_calls.push_back(
        {.id = call.at("id"), .name = call.at("name"), .arguments = call.at("arguments")});
  }
  message.generated = Tokens(json, "generated");
  message.generated_start = ValueOf(json.at("generated_start").get<std::string>(), kChannels);
  return message;
}

// JSON has 64-bit integers; what stands for "as many as there is room for" is none of them.
constexpr uint64_t kMostCount = std::numeric_limits<int64_t>::max();

Json SamplingJson(const SamplingOptions& sampling) {
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repeat_penalty", sampling.repeat_penalty},
          {"repeat_last", sampling.repeat_last},
          {"seed", sampling.seed}};
}

SamplingOptions SamplingOf(const Json& json) {
  SamplingOptions sampling = {.temperature = json.at("temperature"),
                              .top_k = Count(json, "top_k"),
                              .top_p = json.at("top_p"),
                              .min_p = json.at("min_p"),
                              .repeat_penalty = json.at("repeat_penalty"),
                              .repeat_last = Count(json, "repeat_last"),
                              .seed = Count(json, "seed")};
  CheckSamplingOptions(sampling);
  return sampling;
}

SessionNote NoteOf(const Json& json, const std::vector<TokenId>& seen) {
  SessionNote note;
  note.text = seen;
  const std::vector<TokenId> ahead = Tokens(json, "ahead");
  note.text.insert(note.text.end(), ahead.begin(), ahead.end());
  note.answer_begin = Count(json, "answer_begin");
  note.prompt = json.at("prompt");
  if (json.contains("chat_start")) {
    note.chat_start = ValueOf(json.at("chat_start").get<std::string>(), kChannels);
    for (const Json& message : json.at("messages")) note.messages.push_back(MessageOf(message));
    note.thinking = json.at("thinking");
    note.effort.reset();
    if (json.contains("effort")) {
      note.effort = ValueOf(json.at("effort").get<std::string>(), kEfforts);
    }
  }
  note.max_tokens = Count(json, "max_tokens");
  note.sampling = SamplingOf(json.at("sampling"));
  note.stop = json.at("stop").get<std::vector<std::string>>();
  note.ignore_eos = json.at("ignore_eos");
  note.stop_reason = json.at("stop_reason");
  if (note.answer_begin > note.text.size()) Fail(ErrorKind::kIo, "the answer begins behind it");
  return note;
}

}  // namespace

bool SessionNote::finished() const {
  return !stop_reason.empty() && stop_reason != StopReasonName(StopReason::kInterrupted);
}

bool SessionNote::complete(size_t context) const {
  if (answer_begin < text.size() && text.size() > context) return true;
  return stop_reason == StopReasonName(StopReason::kEndOfText) ||
         stop_reason == StopReasonName(StopReason::kCaller) ||
         (stop_reason == StopReasonName(StopReason::kMaxTokens) && answer().size() >= max_tokens &&
          max_tokens > 0);
}

std::string WriteSessionNote(const SessionNote& note, size_t seen) {
  Json json = {{"ahead", std::vector<TokenId>(note.text.begin() + static_cast<ptrdiff_t>(seen),
                                              note.text.end())},
               {"answer_begin", note.answer_begin},
               {"prompt", note.prompt}};
  if (note.chat_start) {
    json["chat_start"] = NameOf(*note.chat_start, kChannels);
    json["messages"] = Json::array();
    for (const ChatMessage& message : note.messages) {
      json["messages"].push_back(MessageJson(message));
    }
    json["thinking"] = note.thinking;
    if (note.effort) json["effort"] = NameOf(*note.effort, kEfforts);
  }
  json["max_tokens"] = std::min<uint64_t>(note.max_tokens, kMostCount);
  json["sampling"] = SamplingJson(note.sampling);
  json["stop"] = note.stop;
  json["ignore_eos"] = note.ignore_eos;
  json["stop_reason"] = note.stop_reason;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

SessionNote ReadSessionNote(const SessionInfo& info, const std::filesystem::path& path) {
  const auto refuse = [&path](const char* what) {
    Fail(
        ErrorKind::kIo,
        "{}: this session was not made by run or chat, or is damaged: {}; bring back a copy of it, "
        "or begin another one",
        path.string(), what);
  };
  try {
    return NoteOf(Json::parse(info.note), info.tokens);
  } catch (const nlohmann::json::parse_error&) {
    refuse("its note is no JSON");
  } catch (const nlohmann::json::exception&) {
    refuse("its note lacks a field, or has one of another kind");
  } catch (const Error& error) {
    refuse(error.what());
  }
  return {};
}

}  // namespace kimi_k3
