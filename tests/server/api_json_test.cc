// Answers as JSON: whole, and as the events of a stream.
#include "server/api_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/http_client.h"

namespace kimi_k3::server {
namespace {

using Json = nlohmann::json;

const Tokenizer& Tiny() {
  static const Tokenizer tokenizer = Tokenizer::Load(KIMI_K3_SOURCE_DIR "/models/tiny");
  return tokenizer;
}

AnswerHeader Header() {
  return {.id = "id-1", .model = "K3", .created = 5, .prompt_tokens = 10, .include_usage = true};
}

AnswerPiece Piece() {
  return {.reasoning = "r", .content = "c", .tool_calls = {{"call_1", "f", "{}"}}, .tokens = {}};
}

TEST(ApiJson, Errors) {
  const Json error = Json::parse(ErrorJson(ApiError(401, "code", "", "not \xff you")));
  EXPECT_EQ(error["error"]["message"], "not \xef\xbf\xbd you");
  EXPECT_EQ(error["error"]["type"], "authentication_error");
  EXPECT_EQ(error["error"]["code"], "code");
  EXPECT_TRUE(error["error"]["param"].is_null());
  EXPECT_EQ(Json::parse(ErrorJson(ApiError(400, "", "p", "m")))["error"]["param"], "p");
  EXPECT_EQ(ApiError(429, "", "", "").type(), "rate_limit_error");
  EXPECT_EQ(ApiError(503, "", "", "").type(), "server_error");
  EXPECT_EQ(ApiError(404, "", "", "").type(), "invalid_request_error");
}

TEST(ApiJson, Models) {
  const Json list = Json::parse(ModelListJson("K3", 7));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "K3");
  EXPECT_EQ(Json::parse(ModelJson("K3", 7)), list["data"][0]);
}

TEST(ApiJson, AWholeChatAnswer) {
  const auto writer = MakeChatWriter(Tiny(), Header());
  writer->Collect(Piece());
  writer->Collect({.content = "d"});
  const Json answer = Json::parse(writer->Whole({.finish_reason = FinishReason::kToolCalls,
                                                 .cached_tokens = 12,
                                                 .completion_tokens = 3,
                                                 .reasoning_tokens = 1,
                                                 .error = {}}));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["id"], "id-1");
  EXPECT_EQ(answer["created"], 5);
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(choice["message"]["content"], "cd");
  EXPECT_EQ(choice["message"]["reasoning_content"], "r");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(answer["usage"]["total_tokens"], 13);
  // The opener of the answer may be cached too, but does not count as prompt.
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 10);
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);
}

TEST(ApiJson, AStreamedChatAnswerJoinsToTheWholeOne) {
  const auto writer = MakeChatWriter(Tiny(), Header());
  std::string body = writer->FirstEvent() + writer->Event(Piece());
  body += writer->Event({.tool_calls = {{"call_2", "g", "{}"}}});
  body += writer->LastEvents({.finish_reason = FinishReason::kToolCalls, .completion_tokens = 3});
  const std::vector<std::string> events = EventsOf(body);
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events.back(), "[DONE]");
  const Json first = Json::parse(events[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"]["role"], "assistant");
  EXPECT_TRUE(first["usage"].is_null());
  const Json second = Json::parse(events[1])["choices"][0];
  EXPECT_EQ(second["delta"]["reasoning_content"], "r");
  EXPECT_EQ(second["delta"]["content"], "c");
  EXPECT_EQ(second["delta"]["tool_calls"][0]["index"], 0);
  EXPECT_EQ(second["delta"]["tool_calls"][0]["id"], "call_1");
  EXPECT_TRUE(second["finish_reason"].is_null());
  EXPECT_EQ(Json::parse(events[2])["choices"][0]["delta"]["tool_calls"][0]["index"], 1);
  const Json last = Json::parse(events[3])["choices"][0];
  EXPECT_EQ(last["finish_reason"], "tool_calls");
  EXPECT_TRUE(last["delta"].empty());
  const Json usage = Json::parse(events[4]);
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["prompt_tokens"], 10);
}

TEST(ApiJson, ProbabilitiesOfAChatAnswerTellBytes) {
  AnswerHeader header = Header();
  header.probabilities = true;
  const auto writer = MakeChatWriter(Tiny(), header);
  const TokenId token = Tiny().Encode(" the", SpecialText::kPlain).front();
  writer->Collect({.content = " the", .tokens = {{token, -0.5F, {{token, -0.5F}}}}});
  const Json logprobs = Json::parse(writer->Whole({}))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["content"][0]["token"], " the");
  EXPECT_EQ(logprobs["content"][0]["logprob"], -0.5);
  EXPECT_EQ(logprobs["content"][0]["bytes"], Json({32, 116, 104, 101}));
  EXPECT_EQ(logprobs["content"][0]["top_logprobs"][0]["token"], " the");
}

TEST(ApiJson, TextAnswers) {
  AnswerHeader header = Header();
  header.probabilities = true;
  const TokenId token = Tiny().Encode(" the", SpecialText::kPlain).front();
  const AnswerPiece piece = {.content = " the", .tokens = {{token, -0.5F, {{token, -0.5F}}}}};
  const auto writer = MakeTextWriter(Tiny(), header);
  writer->Collect(piece);
  writer->Collect(piece);
  const Json answer = Json::parse(writer->Whole({.finish_reason = FinishReason::kLength}));
  EXPECT_EQ(answer["object"], "text_completion");
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], " the the");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({" the", " the"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 4}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1][" the"], -0.5);

  const auto streamed = MakeTextWriter(Tiny(), header);
  const std::vector<std::string> events =
      EventsOf(streamed->FirstEvent() + streamed->Event(piece) + streamed->LastEvents({}));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["text"], " the");
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["finish_reason"], "stop");
}

TEST(ApiJson, ErrorsInAStreamAreEvents) {
  const auto events = EventsOf(ErrorEvent(ApiError(500, "c", "", "it\nbroke")));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(Json::parse(events[0])["error"]["message"], "it\nbroke");
}

TEST(ApiJson, ScoresOfAText) {
  AnswerHeader header = Header();
  header.likely_tokens = 1;
  const auto writer = MakeScoreWriter(Tiny(), header);
  const AnswerPiece piece = {
      .tokens = {{.token = 40, .logprob = -1.5F, .likely = {{41, -0.5F}}},
                 {.token = 41, .logprob = -0.25F, .likely = {{41, -0.25F}}}}};
  EXPECT_EQ(writer->FirstEvent(), "");
  EXPECT_EQ(writer->Event(piece), "");
  const Json score = Json::parse(writer->Whole({}));
  EXPECT_EQ(score["object"], "score");
  EXPECT_EQ(score["scored_tokens"], 2);
  EXPECT_EQ(score["total_logprob"], -1.75);
  EXPECT_EQ(score["logprobs"]["token_ids"], Json::parse("[40, 41]"));
  EXPECT_EQ(score["logprobs"]["token_logprobs"], Json::parse("[-1.5, -0.25]"));
  EXPECT_EQ(score["logprobs"]["tokens"][0], Tiny().TokenBytes(40));
  EXPECT_EQ(score["logprobs"]["top_logprobs"][0][0]["logprob"], -0.5);
  EXPECT_EQ(score["usage"]["prompt_tokens"], 10);
  const auto events = EventsOf(writer->LastEvents({}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(Json::parse(events[0]), score);
}

}  // namespace
}  // namespace kimi_k3::server
