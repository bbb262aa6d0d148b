// From a request for text that has been read to what runs, what collects its answer and what
// writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kimi_k3/constraint.h"
#include "kimi_k3/scheduler.h"
#include "kimi_k3/tokenizer.h"
#include "server/answer.h"
#include "server/api_json.h"
#include "server/completion_request.h"
#include "server/turn_memory.h"

namespace kimi_k3::server {

// What an answer says of itself, and the longest prompt that it may have.
struct AnswerOrigin {
  std::string id = {};
  std::string model = {};
  std::string approximations = {};  // Engine::approximations
  int64_t created = 0;              // Unix time
  size_t most_prompt_tokens = 0;
};

struct PreparedAnswer {
  TextRequest request;
  std::shared_ptr<Answer> answer;  // takes the tokens
  std::unique_ptr<AnswerWriter> writer;
  bool stream = false;
};

// Each throws ApiError: what cannot be rendered, forms of answers that are not supported, and
// prompts that are too long. The tokenizer must outlive the answer. on_turn: as ChatAnswerOptions
// has it.
PreparedAnswer PrepareChatAnswer(const Tokenizer& tokenizer, const ConstraintMaker& constraints,
                                 const ChatCompletionRequest& request, AnswerOrigin origin,
                                 std::function<void(GeneratedTurn)> on_turn);
PreparedAnswer PrepareTextAnswer(const Tokenizer& tokenizer, TextCompletionRequest request,
                                 AnswerOrigin origin);
PreparedAnswer PrepareScoreAnswer(const Tokenizer& tokenizer, const ScoreRequest& request,
                                  AnswerOrigin origin);

}  // namespace kimi_k3::server
