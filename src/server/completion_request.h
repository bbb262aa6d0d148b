// The kinds of requests: a turn of a chat, a text to be continued, and a text to be scored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/chat.h"
#include "kimi_k3/sampling.h"
#include "kimi_k3/tokenizer.h"
#include "server/server_options.h"

namespace kimi_k3::server {

// What both kinds have in common.
struct CompletionOptions {
  SamplingOptions sampling;
  std::vector<std::string> stop;
  size_t max_tokens = SIZE_MAX;
  std::optional<size_t> likely_tokens;  // log probabilities are asked for, with that many others
  bool stream = false;
  bool include_usage = false;  // in a stream
};

struct ChatCompletionRequest {
  CompletionOptions options;
  ChatRequest chat;
  bool tools_allowed = false;       // calls of the model are reported
  bool parallel_tool_calls = true;  // false: the turn ends with its first call
};

struct TextCompletionRequest {
  CompletionOptions options;
  std::string prompt;  // where prompt_ids is empty
  std::vector<TokenId> prompt_ids;
  bool ignore_eos = false;  // tokens that end a text are tokens like others
};

// A text, or its token ids where there are any.
struct TextOrIds {
  std::string text = {};
  std::vector<TokenId> ids = {};
};

// How likely is `scored` after `prompt`? Nothing is generated.
struct ScoreRequest {
  TextOrIds prompt;  // may be empty: then the first token of all is not scored
  TextOrIds scored;
  size_t likely_tokens = 0;  // others, beside each token
};

// The name of the field that a message "field: what is wrong" is about; empty where it names none.
std::string FieldOf(std::string_view message);

// Read the body of a request (JSON; not trusted). Fields that have no meaning here are ignored;
// those that would change the answer in a way that is not offered are refused. Throw ApiError: 400
// naming the field, 404 where `model` names another model than options.model_name.
ChatCompletionRequest ParseChatCompletion(std::string_view body, const ServerOptions& options);
TextCompletionRequest ParseTextCompletion(std::string_view body, const ServerOptions& options);
// {"text": T} or {"prompt": P, "completion": C}: each a string or an array of token ids.
ScoreRequest ParseScore(std::string_view body, const ServerOptions& options);

}  // namespace kimi_k3::server
