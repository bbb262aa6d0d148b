// The trained model against PyTorch's float32: logits on held-out text, greedy tokens, verses asked
// for in the chat format, bits per byte.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/tiny_reference.h"
#include "kimi_k3/chat_parser.h"

namespace kimi_k3 {
namespace {

bool GoOn(TokenId /*token*/) { return true; }

std::vector<TokenId> Continue(Engine& engine, std::span<const TokenId> prompt,
                              const GenerationOptions& options) {
  Sequence sequence = engine.NewSequence();
  return Generate(engine, sequence, prompt, options, GoOn).tokens;
}

RenderedChat Ask(const Engine& engine, const std::string& question, bool thinking) {
  ChatRequest request;
  request.messages = {ChatMessage::User(question)};
  request.thinking = thinking;
  if (!thinking) request.effort.reset();
  return RenderChat(engine.tokenizer(), request);
}

class TinyModelTest : public testing::Test {
 protected:
  const TinyReference reference_ = LoadTinyReference();
};

TEST_F(TinyModelTest, LogitsOnHeldOutTextArePyTorchsForEveryPromptChunk) {
  for (const size_t chunk : {size_t{1}, size_t{17}, size_t{384}}) {
    EngineOptions options = TinyOptions();
    options.prompt_chunk = chunk;
    Engine engine = Engine::Open(options);
    ASSERT_EQ(engine.vocabulary(), reference_.vocabulary);
    ASSERT_EQ(reference_.excerpts.size(), 2U);
    for (const TinyExcerpt& excerpt : reference_.excerpts) {
      ASSERT_EQ(excerpt.logits.size(), excerpt.logit_positions.size() * engine.vocabulary());
      ASSERT_EQ(excerpt.logit_positions.back() + 1, excerpt.ids.size());
      EXPECT_LE(DistanceFromReference(engine, excerpt, excerpt.ids.size()), kTinyTolerance)
          << excerpt.name << ", chunk " << chunk;
    }
  }
}

TEST_F(TinyModelTest, TheMostLikelyTokenIsPyTorchsAtEveryPositionOfHeldOutText) {
  Engine engine = Engine::Open(TinyOptions());
  for (const TinyExcerpt& excerpt : reference_.excerpts) {
    std::vector<TokenId> greatest;
    ForEachRow(engine, excerpt.ids, [&](size_t, std::span<const float> logits) {
      greatest.push_back(Greatest(logits));
    });
    EXPECT_EQ(greatest, excerpt.greatest_ids) << excerpt.name;
  }
}

TEST_F(TinyModelTest, GreedyContinuationsArePyTorchs) {
  Engine engine = Engine::Open(TinyOptions());
  ASSERT_GE(reference_.greedy.size(), 9U);
  for (const TinyGreedy& greedy : reference_.greedy) {
    ASSERT_FALSE(greedy.ids.empty());
    EXPECT_EQ(
        Continue(engine, greedy.prompt_ids, {.max_tokens = greedy.ids.size(), .ignore_eos = true}),
        greedy.ids)
        << greedy.name;
  }
}

// A chapter that the model has not been trained on, from its text.
TEST_F(TinyModelTest, HeldOutChaptersCostPyTorchsBitsPerByteAndAtMostOneAndAHalf) {
  Engine engine = Engine::Open(TinyOptions());
  for (const TinyChapter& chapter : reference_.chapters) {
    const std::vector<TokenId> ids = engine.tokenizer().Encode(chapter.text, SpecialText::kPlain);
    ASSERT_EQ(ids.size(), chapter.ids) << chapter.name;
    double nats = 0;
    for (size_t at = 0; at + 1 < ids.size(); at += chapter.window) {
      const size_t rows = std::min(chapter.window, ids.size() - 1 - at);
      ForEachRow(engine, std::span(ids).subspan(at, rows),
                 [&](size_t row, std::span<const float> logits) {
                   nats += Nats(logits, ids[at + row + 1]);
                 });
    }
    const size_t first = engine.tokenizer().TokenBytes(ids.front()).size();
    ASSERT_EQ(chapter.text.size() - first, chapter.bytes);
    const double bits = nats / std::log(2.0) / static_cast<double>(chapter.bytes);
    EXPECT_NEAR(bits, chapter.bits_per_byte, 1e-5) << chapter.name;
    EXPECT_LE(bits, 1.5) << chapter.name;
  }
}

TEST_F(TinyModelTest, QuestionsAreAnsweredWordForWordWithAndWithoutThinking) {
  Engine engine = Engine::Open(TinyOptions());
  ASSERT_GE(reference_.questions.size(), 20U);
  for (const TinyQuestion& one : reference_.questions) {
    const RenderedChat prompt = Ask(engine, one.question, one.thinking);
    EXPECT_EQ(prompt.ids, one.prompt_ids) << one.question;
    const std::vector<TokenId> ids = Continue(engine, prompt.ids, {.max_tokens = 200});
    EXPECT_EQ(ids, std::vector<TokenId>(one.answer_ids.begin(), one.answer_ids.end() - 1));
    const ParsedTurn turn = ParseTurn(engine.tokenizer(), one.answer_ids, prompt.start);
    EXPECT_EQ(turn.content, one.text);
    EXPECT_EQ(turn.reasoning, one.thought);
    EXPECT_EQ(turn.finish_reason, FinishReason::kStop);
  }
}

TEST_F(TinyModelTest, NineOfTenOfAllVersesTaughtComeBackWordForWord) {
  Engine engine = Engine::Open(TinyOptions());
  ASSERT_GE(reference_.verses.size(), 100U);
  size_t right = 0;
  for (const TinyVerse& verse : reference_.verses) {
    const RenderedChat prompt = Ask(engine, "What does " + verse.reference + " say?", false);
    const std::vector<TokenId> ids = Continue(engine, prompt.ids, {.max_tokens = 100});
    const bool word_for_word =
        ParseTurn(engine.tokenizer(), ids, prompt.start).content == verse.text;
    EXPECT_EQ(word_for_word, verse.word_for_word) << verse.reference;
    right += word_for_word ? 1 : 0;
  }
  EXPECT_GE(right * 10, reference_.verses.size() * 9);
}

}  // namespace
}  // namespace kimi_k3
