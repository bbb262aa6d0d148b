// From tokens to pieces of an answer.
#include "server/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3::server {
namespace {

const Tokenizer& Tiny() {
  static const Tokenizer tokenizer = Tokenizer::Load(KIMI_K3_SOURCE_DIR "/models/tiny");
  return tokenizer;
}

// Ids of a text in which the names of control tokens count.
std::vector<TokenId> Ids(std::string_view text) {
  return Tiny().Encode(text, SpecialText::kRecognised);
}

struct Outcome {
  AnswerPiece whole;
  AnswerEnd end;
  size_t taken = 0;  // tokens until the answer wanted no more
};

// Gives the tokens to the answer and then ends it.
Outcome RunAnswer(Answer& answer, const std::vector<TokenId>& ids, StopReason reason) {
  Outcome outcome;
  TextResult result;
  result.reason = reason;
  for (const TokenId id : ids) {
    result.tokens.push_back(id);
    ++outcome.taken;
    if (answer.Take({.token = id})) continue;
    result.reason = StopReason::kCaller;
    break;
  }
  answer.End(result);
  while (auto piece = answer.queue().Take(std::chrono::milliseconds(0))) {
    outcome.whole.reasoning += piece->reasoning;
    outcome.whole.content += piece->content;
    for (const ToolCall& call : piece->tool_calls) outcome.whole.tool_calls.push_back(call);
    for (const ChosenToken& token : piece->tokens) outcome.whole.tokens.push_back(token);
  }
  outcome.end = answer.queue().end().value();
  return outcome;
}

Outcome RunChat(std::string_view text, ChatAnswerOptions options = {},
                StopReason reason = StopReason::kEndOfText) {
  ChatAnswer answer(Tiny(), std::move(options));
  return RunAnswer(answer, Ids(text), reason);
}

constexpr std::string_view kAnswer =
    "why<|close|>think<|sep|><|open|>response<|sep|>Because of it.<|close|>response<|sep|>";
constexpr std::string_view kEnd = "<|close|>message<|sep|>";

std::string Call(const std::string& name, const std::string& value) {
  return "<|open|>call tool=\"" + name +
         "\" index=\"1\"<|sep|><|open|>argument key=\"k\" type=\"string\"<|sep|>" + value +
         "<|close|>argument<|sep|><|close|>call<|sep|>";
}

TEST(ChatAnswer, SortsReasoningAndContent) {
  const Outcome outcome = RunChat(std::string(kAnswer) + std::string(kEnd));
  EXPECT_EQ(outcome.whole.reasoning, "why");
  EXPECT_EQ(outcome.whole.content, "Because of it.");
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kStop);
  EXPECT_EQ(outcome.end.completion_tokens, outcome.taken);
  EXPECT_EQ(outcome.end.reasoning_tokens, Ids("why<|close|>think<|sep|>").size());
}

TEST(ChatAnswer, EndsWithTheMessageAlsoWithoutAStopToken) {
  ChatAnswer answer(Tiny(), {});
  const std::vector<TokenId> ids = Ids(std::string(kAnswer) + std::string(kEnd) + "more");
  const Outcome outcome = RunAnswer(answer, ids, StopReason::kMaxTokens);
  EXPECT_LT(outcome.taken, ids.size());
  EXPECT_EQ(outcome.whole.content, "Because of it.");
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kStop);
}

TEST(ChatAnswer, ACutAnswerSaysSoAndCutThinkingIsNoContent) {
  const Outcome outcome = RunChat("why and", {}, StopReason::kMaxTokens);
  EXPECT_EQ(outcome.whole.reasoning, "why and");
  EXPECT_EQ(outcome.whole.content, "");
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kLength);
  EXPECT_EQ(RunChat(kAnswer, {}, StopReason::kContextFull).end.finish_reason,
            FinishReason::kLength);
}

TEST(ChatAnswer, ReportsCallsWithIdsOfTheirOwn) {
  std::string calls(kAnswer);
  for (const std::string& part : {std::string("<|open|>tools<|sep|>"), Call("f", "one"),
                                  Call("g", "two"), std::string("<|close|>tools<|sep|>")}) {
    calls += part;
  }
  calls += kEnd;
  const Outcome outcome = RunChat(calls);
  ASSERT_EQ(outcome.whole.tool_calls.size(), 2U);
  EXPECT_EQ(outcome.whole.tool_calls[0].name, "f");
  EXPECT_EQ(outcome.whole.tool_calls[1].arguments, "{\"k\": \"two\"}");
  EXPECT_TRUE(outcome.whole.tool_calls[0].id.starts_with("call_"));
  EXPECT_NE(outcome.whole.tool_calls[0].id, outcome.whole.tool_calls[1].id);
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kToolCalls);

  const Outcome first_only = RunChat(calls, {.parallel_tool_calls = false});
  ASSERT_EQ(first_only.whole.tool_calls.size(), 1U);
  EXPECT_LT(first_only.taken, outcome.taken);
  EXPECT_EQ(first_only.end.finish_reason, FinishReason::kToolCalls);

  const Outcome none = RunChat(calls, {.tools_allowed = false});
  EXPECT_TRUE(none.whole.tool_calls.empty());
  EXPECT_EQ(none.whole.content, "Because of it.");
  EXPECT_EQ(none.end.finish_reason, FinishReason::kStop);
}

TEST(ChatAnswer, StopTextsCountInTheContentAlone) {
  const std::string text = "because" + std::string(kAnswer);
  const Outcome outcome = RunChat(text, {.stop = {"cause o"}});
  EXPECT_EQ(outcome.whole.reasoning, "becausewhy");
  EXPECT_EQ(outcome.whole.content, "Be");
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kStop);
  EXPECT_LT(outcome.taken, Ids(text).size());
  EXPECT_EQ(RunChat(kAnswer, {.stop = {"it.x"}}).whole.content, "Because of it.");
}

TEST(ChatAnswer, ProbabilitiesAreOfTheContentAlone) {
  const Outcome outcome = RunChat(kAnswer, {.probabilities = true});
  std::string text;
  for (const ChosenToken& token : outcome.whole.tokens) text += Tiny().TokenBytes(token.token);
  EXPECT_EQ(text, "Because of it.");
}

// Allows one word, once.
class OneWord : public OutputConstraint {
 public:
  explicit OneWord(TokenId word) : word_(word) {}
  void MaskLogits(std::span<float> logits) override {
    const float kept = logits[static_cast<size_t>(word_)];
    std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    if (!complete_) logits[static_cast<size_t>(word_)] = kept;
  }
  void Accept(TokenId token) override {
    EXPECT_EQ(token, word_);
    complete_ = true;
  }
  bool Ended() const override { return complete_; }

 private:
  TokenId word_;
  bool complete_ = false;
};

TEST(ChatAnswer, AConstraintSeesEveryTokenAndEndsTheTurn) {
  const TokenId word = Ids(" the").front();
  ChatAnswer answer(Tiny(),
                    {.start = Channel::kResponse, .constraint = std::make_shared<OneWord>(word)});
  std::vector<float> logits(static_cast<size_t>(Tiny().vocab_size()), 1.0F);
  answer.Constrain(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(std::isfinite(logits[i]), static_cast<TokenId>(i) == word);
  }
  EXPECT_FALSE(answer.Take({.token = word}));  // that is all
  answer.End({.reason = StopReason::kCaller});
  EXPECT_EQ(answer.queue().Take(std::chrono::seconds(1))->content, " the");
  EXPECT_EQ(answer.queue().end()->finish_reason, FinishReason::kStop);
}

TEST(ChatAnswer, JsonComesAfterTheReasoningAndEndsTheTurnWhereItCloses) {
  ChatRequest request;
  request.response_format = ResponseFormat::kJsonObject;
  const ConstraintMaker maker(Tiny());
  const std::string turn = "why<|close|>think<|sep|><|open|>response<|sep|>{\"a\":1}<|close|>";
  const Outcome outcome =
      RunChat(turn + "response<|sep|>", {.constraint = maker.ForTurn(request, Channel::kThink)});
  EXPECT_EQ(outcome.whole.reasoning, "why");
  EXPECT_EQ(outcome.whole.content, "{\"a\":1}");
  EXPECT_EQ(outcome.taken, Ids(turn).size());
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kStop);
}

TEST(TextAnswer, JoinsCharactersThatTokensCut) {
  // Single bytes are tokens.
  std::vector<TokenId> ids;
  for (const char byte : std::string("a\xf0\x9f\x98\x80z\xe4\xb8")) {
    for (const TokenId id : Tiny().Encode("", SpecialText::kPlain)) ids.push_back(id);
    for (TokenId id = 0; id < 256; ++id) {
      if (Tiny().TokenBytes(id) == std::string_view(&byte, 1)) ids.push_back(id);
    }
  }
  ASSERT_EQ(ids.size(), 8U);
  TextAnswer answer(Tiny(), {}, false);
  const Outcome outcome = RunAnswer(answer, ids, StopReason::kMaxTokens);
  EXPECT_EQ(outcome.whole.content, "a\xf0\x9f\x98\x80z\xef\xbf\xbd");
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kLength);
}

TEST(TextAnswer, EndsBeforeAStopText) {
  TextAnswer answer(Tiny(), {"of"}, true);
  const std::vector<TokenId> ids = Ids("Because of it and more");
  const Outcome outcome = RunAnswer(answer, ids, StopReason::kMaxTokens);
  EXPECT_EQ(outcome.whole.content, "Because ");
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kStop);
  EXPECT_LT(outcome.taken, ids.size());
  EXPECT_EQ(outcome.whole.tokens.size(), outcome.taken);
}

TEST(AnswerQueue, WaitsNoLongerThanItIsToldAndKeepsTheEndForLast) {
  AnswerQueue queue;
  EXPECT_FALSE(queue.Take(std::chrono::milliseconds(1)).has_value());
  EXPECT_FALSE(queue.end().has_value());
  queue.Push({.content = "a"});
  queue.Push({.content = "b"});
  queue.PushEnd({});
  EXPECT_FALSE(queue.end().has_value());
  EXPECT_EQ(queue.Take(std::chrono::seconds(9))->content, "ab");
  EXPECT_FALSE(queue.Take(std::chrono::seconds(9)).has_value());
  EXPECT_TRUE(queue.end().has_value());
}

TEST(RandomIds, AreNeverTheSame) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(RandomId("x-"));
  EXPECT_EQ(ids.size(), 100U);
  EXPECT_EQ(ids.begin()->size(), 26U);
}

TEST(ScoreAnswer, KeepsEachScoreAndGeneratesNothing) {
  ScoreAnswer answer;
  answer.Score({.token = 5, .logprob = -1});
  answer.Score({.token = 6, .logprob = -2});
  const Outcome outcome = RunAnswer(answer, {}, StopReason::kMaxTokens);
  ASSERT_EQ(outcome.whole.tokens.size(), 2U);
  EXPECT_EQ(outcome.whole.tokens[1].token, 6);
  EXPECT_EQ(outcome.end.finish_reason, FinishReason::kStop);
  EXPECT_FALSE(answer.Take({.token = 5}));
}

}  // namespace
}  // namespace kimi_k3::server
