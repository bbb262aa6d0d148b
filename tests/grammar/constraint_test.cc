#include "kimi_k3/constraint.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "grammar/grammar_test_support.h"
#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
        "size": {"type": "number"}}, "required": ["name", "tags", "size"],
        "additionalProperties": false})";

std::vector<TokenId> Allowed(OutputConstraint& constraint, const Tokenizer& tokenizer) {
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()), 1.0F);
  constraint.MaskLogits(logits);
  std::vector<TokenId> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

bool IsStop(const Tokenizer& tokenizer, TokenId token) {
  return std::ranges::find(tokenizer.StopTokens(), token) != tokenizer.StopTokens().end();
}

// A text of tokens drawn from those allowed.
std::string RandomAnswer(OutputConstraint& constraint, const Tokenizer& tokenizer,
                         std::mt19937& random) {
  std::string text;
  while (!constraint.Ended()) {
    const std::vector<TokenId> ids = Allowed(constraint, tokenizer);
    if (ids.empty() || text.size() > 5000) {
      ADD_FAILURE() << "no end: " << text;
      break;
    }
    const TokenId token = ids[random() % ids.size()];
    if (IsStop(tokenizer, token)) break;
    EXPECT_LT(token, tokenizer.first_special_id());
    text += tokenizer.TokenBytes(token);
    constraint.Accept(token);
  }
  return text;
}

void ExpectRandomAnswersToBeJson(const Tokenizer& tokenizer, int count) {
  const ConstraintMaker maker(tokenizer);
  std::mt19937 random(1);
  for (int i = 0; i < count; ++i) {
    const std::string text = RandomAnswer(*maker.ForJson(kSchema, "schema"), tokenizer, random);
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_EQ(value.size(), 3U);
    EXPECT_TRUE(value["name"].is_string() && value["tags"].is_array() && value["size"].is_number());
  }
}

TEST(Constraint, RandomTokensThatAreAllowedMakeJson) {
  ExpectRandomAnswersToBeJson(SmallTokenizer(), 20);
}

TEST(Constraint, SoWithThePublishedVocabulary) {
  SKIP_WITHOUT_SHARED_DATA();
  ExpectRandomAnswersToBeJson(RealTokenizer(), 3);
}

TEST(Constraint, AllowsExactlyTheTokensThatTheTextMayGoOnWith) {
  const Tokenizer& tokenizer = SmallTokenizer();
  const ConstraintMaker maker(tokenizer);
  const auto form = grammar::FormOf(kSchema);
  const std::string text =
      "{\"name\": \"\xc3\xa9t\", \"tags\": [\"red\", \"green\"], \"size\": -1.5}";
  const auto constraint = maker.ForJson(kSchema, "schema");
  std::string before;
  for (const TokenId next : tokenizer.Encode(text, SpecialText::kPlain)) {
    const std::vector<TokenId> allowed = Allowed(*constraint, tokenizer);
    for (TokenId id = 0; id < tokenizer.first_special_id(); ++id) {
      grammar::Matcher matcher(form);
      auto point = matcher.start();
      for (const char c : before + std::string(tokenizer.TokenBytes(id))) {
        point = matcher.Step(point, static_cast<uint8_t>(c));
      }
      const bool found = std::ranges::binary_search(allowed, id);
      ASSERT_EQ(found, point != grammar::Matcher::kDead)
          << before << "+" << tokenizer.TokenBytes(id);
    }
    ASSERT_TRUE(std::ranges::binary_search(allowed, next)) << before;
    constraint->Accept(next);
    before += tokenizer.TokenBytes(next);
  }
  EXPECT_TRUE(constraint->Ended());
}

TEST(Constraint, ATextThatIsWholeMayEndOrGoOn) {
  const Tokenizer& tokenizer = SmallTokenizer();
  const auto constraint = ConstraintMaker(tokenizer).ForJson(R"({"type": "integer"})", "schema");
  for (const TokenId id : tokenizer.Encode("12", SpecialText::kPlain)) constraint->Accept(id);
  EXPECT_FALSE(constraint->Ended());
  const std::vector<TokenId> allowed = Allowed(*constraint, tokenizer);
  EXPECT_TRUE(std::ranges::binary_search(allowed, tokenizer.StopTokens().front()));
  EXPECT_TRUE(std::ranges::binary_search(allowed, tokenizer.Encode("3", SpecialText::kPlain)[0]));
}

TEST(Constraint, ATurnGoesFromThinkingToJsonByItsTags) {
  const Tokenizer& tokenizer = SmallTokenizer();
  ChatRequest request;
  request.response_format = ResponseFormat::kJsonObject;
  const ConstraintMaker maker(tokenizer);
  const auto constraint = maker.ForTurn(request, Channel::kThink);
  const std::string turn = "hm <|close|>think<|sep|><|open|>response<|sep|>{\"a\": 1}<|close|>";
  for (const TokenId id : tokenizer.Encode(turn, SpecialText::kRecognised)) {
    EXPECT_FALSE(constraint->Ended());
    const std::vector<TokenId> allowed = Allowed(*constraint, tokenizer);
    ASSERT_TRUE(std::ranges::binary_search(allowed, id)) << tokenizer.TokenBytes(id);
    EXPECT_FALSE(std::ranges::binary_search(allowed, tokenizer.StopTokens().front()));
    constraint->Accept(id);
  }
  EXPECT_TRUE(constraint->Ended());
  EXPECT_EQ(maker.ForTurn({}, Channel::kThink), nullptr);
}

TEST(Constraint, GoesOnFromABeginningThatTheClientWrote) {
  const Tokenizer& tokenizer = SmallTokenizer();
  ChatRequest request;
  request.response_format = ResponseFormat::kJsonObject;
  request.messages = {ChatMessage::User("x"), ChatMessage::Assistant("{\"a\": [1,")};
  request.messages.back().partial = true;
  const ConstraintMaker maker(tokenizer);
  const auto constraint = maker.ForTurn(request, Channel::kResponse);
  for (const TokenId id : tokenizer.Encode("2]}<|close|>", SpecialText::kRecognised)) {
    constraint->Accept(id);
  }
  EXPECT_TRUE(constraint->Ended());
  request.messages.back().content = {{.text = "Sure: {"}};
  EXPECT_THROW(maker.ForTurn(request, Channel::kResponse), Error);
}

TEST(Constraint, AMaskTakesMilliseconds) {
  SKIP_WITHOUT_SHARED_DATA();
  const Tokenizer& tokenizer = RealTokenizer();
  const ConstraintMaker maker(tokenizer);
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()), 1.0F);
  // Free text, counted text, and a pattern that remembers a lot.
  for (const char* schema :
       {R"({"type": "string"})", R"({"type": "string", "maxLength": 1000})",
        R"({"type": "string", "pattern": "^(.*[aeiou].{12}|.*[a-m].{20})$"})"}) {
    const auto constraint = maker.ForJson(schema, "schema");
    constraint->Accept(tokenizer.Encode("\"", SpecialText::kPlain)[0]);
    constraint->MaskLogits(logits);
    const auto start = std::chrono::steady_clock::now();
    constraint->MaskLogits(logits);
    const auto taken = std::chrono::steady_clock::now() - start;
    RecordProperty(schema, std::to_string(std::chrono::duration<double>(taken).count()));
    EXPECT_LT(taken, std::chrono::seconds(5)) << schema;
  }
}

}  // namespace
}  // namespace kimi_k3
