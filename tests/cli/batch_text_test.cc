// From tokens of a text to a line of results.
#include "cli/batch_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/batch_files.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

class BatchTexts : public testing::Test {
 protected:
  BatchTexts() {
    WriteText(folder_ / "in", TextLine("a", "{}"));
    input_.emplace(folder_ / "in", "s");
    output_.emplace(folder_ / "out", *input_);
    journal_.emplace(*input_, *output_);
  }

  BatchText Text(size_t begun) {
    server::TextCompletionRequest request;
    request.prompt = "It is";
    server::PreparedAnswer prepared = server::PrepareTextAnswer(
        tokenizer_, request, {.id = "cmpl-1", .model = "m", .most_prompt_tokens = 100});
    return BatchText({.index = 0,
                      .id = input_->lines()[0].id,
                      .custom_id = "a",
                      .prompt_tokens = 2,
                      .begun = begun},
                     prepared.answer, std::move(prepared.writer), &*journal_, finished_);
  }
  FinishedText Finished() {
    std::vector<FinishedText> texts = finished_.Take(std::chrono::milliseconds(0));
    EXPECT_EQ(texts.size(), 1U);
    return texts.at(0);
  }

  TemporaryFolder folder_;
  const Tokenizer tokenizer_ = Tokenizer::Load(TinyModel());
  const std::vector<TokenId> ids_ = tokenizer_.Encode(" a truth", SpecialText::kPlain);
  std::optional<BatchInput> input_;
  std::optional<BatchOutput> output_;
  std::optional<BatchJournal> journal_;
  FinishedTexts finished_;
};

TEST_F(BatchTexts, BecomeALineWithTheirAnswer) {
  BatchText text = Text(0);
  for (const TokenId id : ids_) EXPECT_TRUE(text.Take({.token = id}));
  text.End({.reason = StopReason::kMaxTokens, .tokens = ids_, .cached_tokens = 1, .error = {}});
  const FinishedText finished = Finished();
  EXPECT_FALSE(finished.failure);
  EXPECT_EQ(finished.tokens, ids_.size());
  const auto line = nlohmann::json::parse(finished.line);
  EXPECT_EQ(line["custom_id"], "a");
  const auto& body = line["response"]["body"];
  EXPECT_EQ(body["choices"][0]["text"], " a truth");
  EXPECT_EQ(body["usage"]["completion_tokens"], ids_.size());
  // What was at hand differs from run to run.
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(BatchTexts, NoteTheirTokensButThoseThatWereNotedBefore) {
  BatchText text = Text(1);
  for (const TokenId id : ids_) text.Take({.token = id});
  journal_->Sync();
  const std::string noted = ReadFile(folder_ / "out.begun");
  EXPECT_NE(noted.find("\"from\":1,\"tokens\":[" + std::to_string(ids_[1])), std::string::npos)
      << noted;
}

TEST_F(BatchTexts, HaveNoLineWhereTheyFailed) {
  BatchText text = Text(0);
  text.End({.tokens = {}, .error = Error(ErrorKind::kIo, "no drive")});
  const FinishedText finished = Finished();
  EXPECT_TRUE(finished.line.empty());
  EXPECT_STREQ(finished.failure->what(), "no drive");
}

}  // namespace
}  // namespace kimi_k3
