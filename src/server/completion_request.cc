// The kinds of requests: a turn of a chat, a text to be continued, and a text to be scored.
#include "server/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>

#include "server/api_error.h"
#include "server/json_fields.h"

namespace kimi_k3::server {
namespace {

using text::JsonValue;

constexpr size_t kMostStopTexts = 16;
constexpr int64_t kMostLikelyTokens = 20;
constexpr int64_t kMostTextLikelyTokens = 5;
constexpr double kAnyNumber = std::numeric_limits<float>::max();

JsonValue ParseObject(std::string_view body) {
  text::JsonParseResult parsed = text::ParseJson(body);
  if (!parsed.value) {
    throw ApiError(400, "invalid_json", "", fmt::format("the request is {}", parsed.error));
  }
  if (!parsed.value->is_object()) {
    throw ApiError(
        400, "invalid_type", "",
        fmt::format("the request must be a JSON object, not {}", parsed.value->TypeName()));
  }
  return std::move(*parsed.value);
}

void CheckModel(const JsonValue& root, const ServerOptions& options) {
  const std::optional<std::string> model = StringField(root, "model");
  if (!model || model->empty() || *model == options.model_name) return;
  throw ApiError(404, "model_not_found", "model",
                 fmt::format("model: there is no \"{}\" here, only \"{}\"", model->substr(0, 200),
                             options.model_name));
}

// What would need a different answer than the one given.
void RefuseWhatIsNotOffered(const JsonValue& root) {
  if (IntegerField(root, "n", 1, 128).value_or(1) != 1) {
    RefuseField("n", "only 1 answer is given to a request");
  }
  for (const char* penalty : {"presence_penalty", "frequency_penalty"}) {
    if (NumberField(root, penalty, -2, 2).value_or(0) != 0) {
      RefuseField(penalty, "is not offered; leave it out or 0");
    }
  }
  if (const JsonValue* bias = FindField(root, "logit_bias")) {
    if (!bias->is_object() || !bias->members().empty()) {
      RefuseField("logit_bias", "is not offered; leave it out");
    }
  }
}

std::vector<std::string> StopTexts(const JsonValue& root) {
  const JsonValue* stop = FindField(root, "stop");
  std::vector<std::string> texts;
  if (stop == nullptr) return texts;
  if (stop->is_string()) {
    texts.push_back(stop->string());
  } else if (stop->is_array()) {
    for (const JsonValue& text : stop->items()) {
      if (!text.is_string()) RefuseField("stop", "must be a string or an array of strings");
      texts.push_back(text.string());
    }
  } else {
    RefuseField("stop", "must be a string or an array of strings");
  }
  if (texts.size() > kMostStopTexts) {
    RefuseField("stop", "has {} texts; at most {} are looked for", texts.size(), kMostStopTexts);
  }
  if (std::ranges::any_of(texts, &std::string::empty)) RefuseField("stop", "a text is empty");
  return texts;
}

// The same penalty under the names of two families of servers, which differ in what it is for: all
// of the text, or the latest tokens.
void ParsePenalty(const JsonValue& root, SamplingOptions& sampling) {
  constexpr const char* kOfAll = "repetition_penalty";
  constexpr const char* kOfLatest = "repeat_penalty";
  const std::optional<double> of_all = NumberField(root, kOfAll, 0, kAnyNumber);
  const std::optional<double> of_latest = NumberField(root, kOfLatest, 0, kAnyNumber);
  if (of_all && of_latest) RefuseField(kOfLatest, "makes no sense beside \"{}\"", kOfAll);
  sampling.repeat_penalty = static_cast<float>(of_all.value_or(of_latest.value_or(1)));
  if (sampling.repeat_penalty <= 0) RefuseField(of_all ? kOfAll : kOfLatest, "must be above 0");
  if (of_all) sampling.repeat_last = 0;
}

SamplingOptions Sampling(const JsonValue& root, const ServerOptions& options) {
  SamplingOptions sampling;
  sampling.temperature = static_cast<float>(
      NumberField(root, "temperature", 0, kAnyNumber).value_or(options.temperature));
  sampling.top_p = static_cast<float>(NumberField(root, "top_p", 0, 1).value_or(options.top_p));
  sampling.min_p = static_cast<float>(NumberField(root, "min_p", 0, 1).value_or(0));
  sampling.top_k = static_cast<size_t>(IntegerField(root, "top_k", 0, INT64_MAX).value_or(0));
  ParsePenalty(root, sampling);
  const std::optional<uint64_t> seed = SeedField(root, "seed");
  std::random_device random;
  sampling.seed = seed ? *seed : options.seed.value_or(uint64_t{random()} << 32 | random());
  return sampling;
}

void ParseStreaming(const JsonValue& root, CompletionOptions& parsed) {
  parsed.stream = BooleanField(root, "stream").value_or(false);
  const JsonValue* options = FindField(root, "stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) RefuseField("stream_options", "must be an object");
  if (!parsed.stream) RefuseField("stream_options", "has a meaning only with \"stream\": true");
  parsed.include_usage = BooleanField(*options, "include_usage").value_or(false);
}

// Of both kinds, except for log probabilities.
CompletionOptions ParseOptions(const JsonValue& root, const ServerOptions& options) {
  CheckModel(root, options);
  RefuseWhatIsNotOffered(root);
  CompletionOptions parsed;
  parsed.sampling = Sampling(root, options);
  parsed.stop = StopTexts(root);
  ParseStreaming(root, parsed);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const auto most = IntegerField(root, name, 1, INT64_MAX);
    if (most) parsed.max_tokens = std::min(parsed.max_tokens, static_cast<size_t>(*most));
  }
  if (options.most_answer_tokens != 0) {
    parsed.max_tokens = std::min(parsed.max_tokens, options.most_answer_tokens);
  }
  return parsed;
}

ChatRequest ParseChat(std::string_view body) {
  try {
    return ParseChatRequest(body);
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", FieldOf(error.what()), error.what());
  }
}

// Templates of the vendor know more than clients may decide here.
void CheckTemplateArguments(const JsonValue& root) {
  const JsonValue* arguments = FindField(root, "chat_template_kwargs");
  if (arguments == nullptr) return;
  for (const char* name : {"image_prompts", "add_generation_prompt"}) {
    if (FindField(*arguments, name) == nullptr) continue;
    RefuseField(std::string("chat_template_kwargs.") + name, "is not offered; leave it out");
  }
}

void CheckChat(const ChatRequest& chat) {
  if (chat.messages.empty()) RefuseField("messages", "must have at least one message");
  const bool has_tools = !chat.tools.empty() && chat.tools != "[]";
  if (chat.tool_choice == ToolChoice::kRequired && !has_tools) {
    RefuseField("tool_choice", "\"required\" needs tools, and there are none");
  }
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    for (const ContentPart& part : chat.messages[i].content) {
      if (part.is_image) {
        RefuseField(fmt::format("messages[{}].content", i), "images are not offered, only text");
      }
    }
  }
}

std::optional<size_t> ChatLikelyTokens(const JsonValue& root) {
  const auto others = IntegerField(root, "top_logprobs", 0, kMostLikelyTokens);
  if (BooleanField(root, "logprobs").value_or(false)) {
    return static_cast<size_t>(others.value_or(0));
  }
  if (others) RefuseField("top_logprobs", "needs \"logprobs\": true");
  return std::nullopt;
}

TokenId ParseTokenId(const char* field, const JsonValue& value) {
  if (!value.is_number() || !value.number().is_integer() || value.number().text.size() > 9 ||
      value.number().text.starts_with('-')) {
    RefuseField(field, "a token id must be a whole number of the vocabulary");
  }
  return static_cast<TokenId>(std::stol(value.number().text));
}

void ParsePrompt(const JsonValue& root, TextCompletionRequest& request) {
  const JsonValue* prompt = FindField(root, "prompt");
  if (prompt == nullptr) RefuseField("prompt", "is missing");
  // An array of one prompt is that prompt.
  if (prompt->is_array() && prompt->items().size() == 1 && !prompt->items()[0].is_number()) {
    prompt = &prompt->items()[0];
  }
  if (prompt->is_string()) {
    request.prompt = prompt->string();
  } else if (prompt->is_array() && !prompt->items().empty() && prompt->items()[0].is_number()) {
    for (const JsonValue& id : prompt->items())
      request.prompt_ids.push_back(ParseTokenId("prompt", id));
  } else if (prompt->is_array() && prompt->items().size() > 1) {
    RefuseField("prompt", "only one prompt is taken by a request");
  } else {
    RefuseField("prompt", "must be a string or an array of token ids, not empty");
  }
  if (request.prompt.empty() && request.prompt_ids.empty()) RefuseField("prompt", "is empty");
}

// A string or an array of token ids, neither of them empty.
TextOrIds ParseTextOrIds(const JsonValue& root, const char* field) {
  const JsonValue* value = FindField(root, field);
  if (value == nullptr) RefuseField(field, "is missing");
  TextOrIds given;
  if (value->is_string()) {
    given.text = value->string();
  } else if (value->is_array()) {
    for (const JsonValue& id : value->items()) given.ids.push_back(ParseTokenId(field, id));
  } else {
    RefuseField(field, "must be a string or an array of token ids");
  }
  if (given.text.empty() && given.ids.empty()) RefuseField(field, "is empty");
  return given;
}

}  // namespace

std::string FieldOf(std::string_view message) {
  const std::string_view field = message.substr(0, message.find(':'));
  return field.find(' ') == std::string_view::npos ? std::string(field) : std::string();
}

ChatCompletionRequest ParseChatCompletion(std::string_view body, const ServerOptions& options) {
  const JsonValue root = ParseObject(body);
  ChatCompletionRequest request;
  request.options = ParseOptions(root, options);
  request.options.likely_tokens = ChatLikelyTokens(root);
  CheckTemplateArguments(root);
  request.chat = ParseChat(body);
  CheckChat(request.chat);
  request.parallel_tool_calls = BooleanField(root, "parallel_tool_calls").value_or(true);
  const bool declared = (!request.chat.tools.empty() && request.chat.tools != "[]") ||
                        std::ranges::any_of(request.chat.messages, [](const ChatMessage& message) {
                          return !message.tools.empty();
                        });
  request.tools_allowed = declared && request.chat.tool_choice != ToolChoice::kNone;
  return request;
}

TextCompletionRequest ParseTextCompletion(std::string_view body, const ServerOptions& options) {
  const JsonValue root = ParseObject(body);
  TextCompletionRequest request;
  request.options = ParseOptions(root, options);
  const auto likely = IntegerField(root, "logprobs", 0, kMostTextLikelyTokens);
  if (likely) request.options.likely_tokens = static_cast<size_t>(*likely);
  if (BooleanField(root, "echo").value_or(false)) RefuseField("echo", "is not offered");
  if (!StringField(root, "suffix").value_or("").empty()) RefuseField("suffix", "is not offered");
  if (IntegerField(root, "best_of", 1, 128).value_or(1) != 1) {
    RefuseField("best_of", "only 1 answer is given to a request");
  }
  request.ignore_eos = BooleanField(root, "ignore_eos").value_or(false);
  ParsePrompt(root, request);
  return request;
}

ScoreRequest ParseScore(std::string_view body, const ServerOptions& options) {
  const JsonValue root = ParseObject(body);
  CheckModel(root, options);
  ScoreRequest request;
  if (FindField(root, "text") != nullptr) {
    for (const char* other : {"prompt", "completion"}) {
      if (FindField(root, other) != nullptr) RefuseField(other, "makes no sense beside \"text\"");
    }
    request.scored = ParseTextOrIds(root, "text");
  } else {
    request.prompt = ParseTextOrIds(root, "prompt");
    request.scored = ParseTextOrIds(root, "completion");
  }
  const auto likely = IntegerField(root, "logprobs", 0, kMostLikelyTokens);
  request.likely_tokens = static_cast<size_t>(likely.value_or(0));
  return request;
}

}  // namespace kimi_k3::server
