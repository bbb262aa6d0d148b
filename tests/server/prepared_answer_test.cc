// From requests to what runs.
#include "server/prepared_answer.h"

#include <gtest/gtest.h>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

const Tokenizer& Tiny() {
  static const Tokenizer tokenizer = Tokenizer::Load(KIMI_K3_SOURCE_DIR "/models/tiny");
  return tokenizer;
}

AnswerOrigin Origin(size_t most = 100) {
  return {.id = "id", .model = "K3", .created = 5, .most_prompt_tokens = most};
}

TEST(PreparedAnswer, OfAText) {
  TextCompletionRequest request;
  request.prompt = "It is";
  request.options.max_tokens = 7;
  request.options.likely_tokens = 2;
  const PreparedAnswer prepared = PrepareTextAnswer(Tiny(), request, Origin());
  EXPECT_EQ(prepared.request.prompt, Tiny().Encode("It is", SpecialText::kPlain));
  EXPECT_EQ(prepared.request.max_tokens, 7U);
  EXPECT_EQ(prepared.request.likely_tokens, 2U);
  EXPECT_FALSE(prepared.stream);
  request.prompt_ids = {5, 6};
  EXPECT_EQ(PrepareTextAnswer(Tiny(), request, Origin()).request.prompt,
            (std::vector<TokenId>{5, 6}));
}

TEST(PreparedAnswer, OfAChat) {
  const ChatCompletionRequest request = ParseChatCompletion(
      R"({"messages": [{"role": "user", "content": "hi"}], "stream": true})", {});
  const ConstraintMaker constraints(Tiny());
  const PreparedAnswer prepared = PrepareChatAnswer(Tiny(), constraints, request, Origin(), {});
  EXPECT_EQ(prepared.request.prompt, RenderChat(Tiny(), request.chat).ids);
  EXPECT_TRUE(prepared.stream);
  EXPECT_NE(prepared.writer->FirstEvent().find("\"created\":5"), std::string::npos);
}

TEST(PreparedAnswer, FormsThatAreNotSupportedAreRefusedByTheirPlace) {
  const ChatCompletionRequest request = ParseChatCompletion(
      R"({"messages": [{"role": "user", "content": "hi"}], "response_format": {"type": "json_schema",
          "json_schema": {"schema": {"not": {}}}}})",
      {});
  const ConstraintMaker constraints(Tiny());
  try {
    PrepareChatAnswer(Tiny(), constraints, request, Origin(1000), {});
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.param(), "response_format.json_schema.schema.not");
  }
}

TEST(PreparedAnswer, OfAScoreKnowsWhereItBegins) {
  ScoreRequest request;
  request.scored.text = "It is a truth";
  const size_t tokens = Tiny().Encode("It is a truth", SpecialText::kPlain).size();
  PreparedAnswer prepared = PrepareScoreAnswer(Tiny(), request, Origin());
  EXPECT_EQ(prepared.request.prompt.size(), tokens);
  EXPECT_EQ(prepared.request.score_from, 1U);
  EXPECT_EQ(prepared.request.max_tokens, 0U);
  EXPECT_FALSE(prepared.request.likely_tokens.has_value());
  request.prompt.ids = {3, 4, 5};
  request.likely_tokens = 2;
  prepared = PrepareScoreAnswer(Tiny(), request, Origin());
  EXPECT_EQ(prepared.request.prompt.size(), 3 + tokens);
  EXPECT_EQ(prepared.request.score_from, 3U);
  EXPECT_EQ(prepared.request.likely_tokens, 2U);
  request = {};
  request.scored.ids = {3};
  EXPECT_THROW(PrepareScoreAnswer(Tiny(), request, Origin()), ApiError);
}

TEST(PreparedAnswer, APromptThatIsTooLongIsRefused) {
  TextCompletionRequest request;
  request.prompt_ids.assign(5, 1);
  EXPECT_NO_THROW(PrepareTextAnswer(Tiny(), request, Origin(5)));
  try {
    PrepareTextAnswer(Tiny(), request, Origin(4));
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.code(), "context_length_exceeded");
  }
}

}  // namespace
}  // namespace kimi_k3::server
