// The JSON of answers and errors, in OpenAI's shape.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kimi_k3/tokenizer.h"
#include "server/answer.h"
#include "server/api_error.h"

namespace kimi_k3::server {

// {"error": {"message", "type", "param", "code"}}
std::string ErrorJson(const ApiError& error);

// {"object": "list", "data": [model]}, and one model.
std::string ModelListJson(const std::string& model, int64_t created);
std::string ModelJson(const std::string& model, int64_t created);

// What every part of one answer says of itself.
struct AnswerHeader {
  std::string id = {};
  std::string model = {};
  std::string approximations = {};  // Engine::approximations
  int64_t created = 0;              // Unix time
  size_t prompt_tokens = 0;         // as the vendor counts them
  bool include_usage = false;
  bool probabilities = false;
  size_t likely_tokens = 0;  // others, beside each token
};

// Writes one answer, as a whole or as the events of a stream. The tokenizer must outlive it.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // Takes the next piece; for the whole answer.
  virtual void Collect(AnswerPiece piece) = 0;
  virtual std::string Whole(const AnswerEnd& end) = 0;
  // Events: each "data: {...}" and an empty line.
  virtual std::string FirstEvent() = 0;  // may be empty
  virtual std::string Event(AnswerPiece piece) = 0;
  // The last events, "data: [DONE]" included.
  virtual std::string LastEvents(const AnswerEnd& end) = 0;
};

std::unique_ptr<AnswerWriter> MakeChatWriter(const Tokenizer& tokenizer, AnswerHeader header);
std::unique_ptr<AnswerWriter> MakeTextWriter(const Tokenizer& tokenizer, AnswerHeader header);
// Scores of a text; as a stream it is one event.
std::unique_ptr<AnswerWriter> MakeScoreWriter(const Tokenizer& tokenizer, AnswerHeader header);

// An error in the middle of a stream.
std::string ErrorEvent(const ApiError& error);

}  // namespace kimi_k3::server
