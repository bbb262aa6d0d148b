// The JSON of answers and errors, in OpenAI's shape.
#include "server/api_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kimi_k3/utf8.h"

namespace kimi_k3::server {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string EventOf(const Json& json) { return fmt::format("data: {}\n\n", Text(json)); }

Json NullOr(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json ModelObject(const std::string& model, int64_t created) {
  return {{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "kimi_k3"}};
}

Json ErrorObject(const ApiError& error) {
  return {{"error",
           {{"message", ReplaceInvalidUtf8(error.what())},
            {"type", error.type()},
            {"param", NullOr(error.param())},
            {"code", NullOr(error.code())}}}};
}

Json UsageObject(const AnswerHeader& header, const AnswerEnd& end) {
  const size_t cached = std::min(end.cached_tokens, header.prompt_tokens);
  return {{"prompt_tokens", header.prompt_tokens},
          {"completion_tokens", end.completion_tokens},
          {"total_tokens", header.prompt_tokens + end.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", end.reasoning_tokens}}}};
}

Json Envelope(const AnswerHeader& header, const char* object) {
  return {{"id", header.id},
          {"object", object},
          {"created", header.created},
          {"model", header.model},
          {"system_fingerprint",
           header.approximations.empty() ? Json(nullptr) : Json(header.approximations)}};
}

Json BytesOf(std::string_view bytes) {
  Json numbers = Json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return numbers;
}

// {"token", "logprob", "bytes"}: a token may be a part of a character, which only its bytes tell.
Json TokenObject(const Tokenizer& tokenizer, TokenId token, float logprob) {
  const std::string_view bytes = tokenizer.TokenBytes(token);
  return {{"token", ReplaceInvalidUtf8(bytes)}, {"logprob", logprob}, {"bytes", BytesOf(bytes)}};
}

// What both kinds of writers have in common: envelope, usage and the events around the text.
class CommonWriter : public AnswerWriter {
 public:
  CommonWriter(const Tokenizer& tokenizer, AnswerHeader header)
      : tokenizer_(tokenizer), header_(std::move(header)) {}

  void Collect(AnswerPiece piece) override {
    whole_.reasoning += piece.reasoning;
    whole_.content += piece.content;
    std::ranges::move(piece.tool_calls, std::back_inserter(whole_.tool_calls));
    std::ranges::move(piece.tokens, std::back_inserter(whole_.tokens));
  }

 protected:
  Json Chunk(const char* object, Json choices) const {
    Json chunk = Envelope(header_, object);
    chunk["choices"] = std::move(choices);
    if (header_.include_usage) chunk["usage"] = nullptr;
    return chunk;
  }

  std::string UsageAndDone(const char* object, const AnswerEnd& end) const {
    std::string events;
    if (header_.include_usage) {
      Json chunk = Chunk(object, Json::array());
      chunk["usage"] = UsageObject(header_, end);
      events += EventOf(chunk);
    }
    return events + "data: [DONE]\n\n";
  }

  const Tokenizer& tokenizer_;
  const AnswerHeader header_;
  AnswerPiece whole_;
};

class ChatWriter : public CommonWriter {
 public:
  using CommonWriter::CommonWriter;

  std::string Whole(const AnswerEnd& end) override {
    Json message = {
        {"role", "assistant"},
        {"content", whole_.content.empty() && !whole_.tool_calls.empty() ? Json(nullptr)
                                                                         : Json(whole_.content)},
        {"refusal", nullptr}};
    if (!whole_.reasoning.empty()) message["reasoning_content"] = whole_.reasoning;
    if (!whole_.tool_calls.empty()) {
      message["tool_calls"] = Json::array();
      for (const ToolCall& call : whole_.tool_calls) {
        message["tool_calls"].push_back(CallObject(call));
      }
    }
    Json answer = Envelope(header_, "chat.completion");
    Json choice = {{"index", 0},
                   {"message", std::move(message)},
                   {"logprobs", Probabilities(whole_.tokens)},
                   {"finish_reason", FinishReasonName(end.finish_reason)}};
    answer["choices"] = Json::array({std::move(choice)});
    answer["usage"] = UsageObject(header_, end);
    return Text(answer);
  }

  std::string FirstEvent() override {
    return Delta({{"role", "assistant"}, {"content", ""}}, Json(nullptr), Json(nullptr));
  }

  std::string Event(AnswerPiece piece) override {
    Json delta = Json::object();
    if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
    if (!piece.content.empty() || !piece.tokens.empty()) delta["content"] = piece.content;
    for (const ToolCall& call : piece.tool_calls) {
      Json object = {{"index", calls_++}};
      object.update(CallObject(call));
      delta["tool_calls"].push_back(std::move(object));
    }
    return Delta(std::move(delta), Probabilities(piece.tokens), Json(nullptr));
  }

  std::string LastEvents(const AnswerEnd& end) override {
    return Delta(Json::object(), Json(nullptr), FinishReasonName(end.finish_reason)) +
           UsageAndDone(kChunk, end);
  }

 private:
  static constexpr const char* kChunk = "chat.completion.chunk";

  static Json CallObject(const ToolCall& call) {
    return {{"id", call.id},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }

  std::string Delta(Json delta, Json logprobs, Json finish_reason) const {
    Json choice = {{"index", 0},
                   {"delta", std::move(delta)},
                   {"logprobs", std::move(logprobs)},
                   {"finish_reason", std::move(finish_reason)}};
    return EventOf(Chunk(kChunk, Json::array({std::move(choice)})));
  }

  Json Probabilities(const std::vector<ChosenToken>& tokens) const {
    if (!header_.probabilities) return nullptr;
    Json content = Json::array();
    for (const ChosenToken& token : tokens) {
      Json entry = TokenObject(tokenizer_, token.token, token.logprob);
      entry["top_logprobs"] = Json::array();
      for (const TokenProbability& likely : token.likely) {
        entry["top_logprobs"].push_back(TokenObject(tokenizer_, likely.token, likely.logprob));
      }
      content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  size_t calls_ = 0;
};

class TextWriter : public CommonWriter {
 public:
  using CommonWriter::CommonWriter;

  std::string Whole(const AnswerEnd& end) override {
    Json answer = Envelope(header_, kObject);
    answer["choices"] = Json::array({Choice(whole_, Json(FinishReasonName(end.finish_reason)))});
    answer["usage"] = UsageObject(header_, end);
    return Text(answer);
  }

  std::string FirstEvent() override { return {}; }

  std::string Event(AnswerPiece piece) override {
    return EventOf(Chunk(kObject, Json::array({Choice(piece, Json(nullptr))})));
  }

  std::string LastEvents(const AnswerEnd& end) override {
    const Json reason = FinishReasonName(end.finish_reason);
    return EventOf(Chunk(kObject, Json::array({Choice({}, reason)}))) + UsageAndDone(kObject, end);
  }

 private:
  static constexpr const char* kObject = "text_completion";

  Json Choice(const AnswerPiece& piece, Json finish_reason) {
    return {{"text", piece.content},
            {"index", 0},
            {"logprobs", Probabilities(piece.tokens)},
            {"finish_reason", std::move(finish_reason)}};
  }

  Json Probabilities(const std::vector<ChosenToken>& tokens) {
    if (!header_.probabilities) return nullptr;
    Json texts = Json::array();
    Json logprobs = Json::array();
    Json likely = Json::array();
    Json offsets = Json::array();
    for (const ChosenToken& token : tokens) {
      std::string text = ReplaceInvalidUtf8(tokenizer_.TokenBytes(token.token));
      Json others = Json::object();
      for (const TokenProbability& other : token.likely) {
        others[ReplaceInvalidUtf8(tokenizer_.TokenBytes(other.token))] = other.logprob;
      }
      offsets.push_back(offset_);
      offset_ += text.size();
      texts.push_back(std::move(text));
      logprobs.push_back(token.logprob);
      likely.push_back(std::move(others));
    }
    return {{"tokens", std::move(texts)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(likely)},
            {"text_offset", std::move(offsets)}};
  }

  size_t offset_ = 0;
};

class ScoreWriter : public CommonWriter {
 public:
  using CommonWriter::CommonWriter;

  std::string Whole(const AnswerEnd& end) override { return Text(Score(end)); }
  std::string FirstEvent() override { return {}; }
  std::string Event(AnswerPiece piece) override {
    Collect(std::move(piece));
    return {};
  }
  std::string LastEvents(const AnswerEnd& end) override {
    return EventOf(Score(end)) + "data: [DONE]\n\n";
  }

 private:
  Json Score(const AnswerEnd& end) const {
    double total = 0;
    Json ids = Json::array();
    Json texts = Json::array();
    Json logprobs = Json::array();
    Json likely = Json::array();
    for (const ChosenToken& token : whole_.tokens) {
      total += static_cast<double>(token.logprob);
      ids.push_back(token.token);
      texts.push_back(ReplaceInvalidUtf8(tokenizer_.TokenBytes(token.token)));
      logprobs.push_back(token.logprob);
      Json others = Json::array();
      for (const TokenProbability& other : token.likely) {
        others.push_back(TokenObject(tokenizer_, other.token, other.logprob));
      }
      likely.push_back(std::move(others));
    }
    Json answer = Envelope(header_, "score");
    answer["scored_tokens"] = whole_.tokens.size();
    answer["total_logprob"] = total;
    answer["logprobs"] = {{"token_ids", std::move(ids)},
                          {"tokens", std::move(texts)},
                          {"token_logprobs", std::move(logprobs)}};
    if (header_.likely_tokens > 0) answer["logprobs"]["top_logprobs"] = std::move(likely);
    answer["usage"] = UsageObject(header_, end);
    return answer;
  }
};

}  // namespace

std::string ErrorJson(const ApiError& error) { return Text(ErrorObject(error)); }

std::string ErrorEvent(const ApiError& error) { return EventOf(ErrorObject(error)); }

std::string ModelJson(const std::string& model, int64_t created) {
  return Text(ModelObject(model, created));
}

std::string ModelListJson(const std::string& model, int64_t created) {
  return Text({{"object", "list"}, {"data", Json::array({ModelObject(model, created)})}});
}

std::unique_ptr<AnswerWriter> MakeChatWriter(const Tokenizer& tokenizer, AnswerHeader header) {
  return std::make_unique<ChatWriter>(tokenizer, std::move(header));
}

std::unique_ptr<AnswerWriter> MakeTextWriter(const Tokenizer& tokenizer, AnswerHeader header) {
  return std::make_unique<TextWriter>(tokenizer, std::move(header));
}

std::unique_ptr<AnswerWriter> MakeScoreWriter(const Tokenizer& tokenizer, AnswerHeader header) {
  return std::make_unique<ScoreWriter>(tokenizer, std::move(header));
}

}  // namespace kimi_k3::server
