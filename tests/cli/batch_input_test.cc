// The lines of a batch.
#include "cli/batch_input.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "base/error.h"
#include "cli/batch_files.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

std::string CodeOf(std::string_view line) {
  const auto parsed = ParseBatchLine(line);
  const auto* problem = std::get_if<BatchProblem>(&parsed);
  return problem == nullptr ? "" : problem->code;
}

TEST(BatchLine, IsARequestOfOneOfThreeKinds) {
  const auto parsed = ParseBatchLine(
      R"({"custom_id": "a\u00e9", "method": "POST", "url": "/v1/score", "body": {"text": "x", "n": 1.50}})");
  const auto& request = std::get<BatchRequest>(parsed);
  EXPECT_EQ(request.custom_id, "a\u00e9");
  EXPECT_EQ(request.kind, BatchKind::kScore);
  EXPECT_EQ(request.body, R"({"text":"x","n":1.5})");
  EXPECT_EQ(std::get<BatchRequest>(ParseBatchLine(TextLine("x", "{}"))).kind, BatchKind::kText);
}

TEST(BatchLine, WhatIsNoneIsToldBy) {
  EXPECT_EQ(CodeOf("{"), "invalid_json");
  EXPECT_EQ(CodeOf("[]"), "invalid_type");
  EXPECT_EQ(CodeOf(R"({"custom_id": 5})"), "missing_custom_id");
  EXPECT_EQ(CodeOf(R"({"custom_id": ")" + std::string(600, 'a') + "\"}"), "invalid_custom_id");
  EXPECT_EQ(CodeOf(R"({"custom_id": "a", "method": "GET"})"), "invalid_method");
  EXPECT_EQ(CodeOf(R"({"custom_id": "a", "method": "POST", "url": "/v1/embeddings"})"),
            "invalid_url");
  EXPECT_EQ(CodeOf(R"({"custom_id": "a", "method": "POST", "url": "/v1/score", "body": 1})"),
            "invalid_body");
}

class Batches : public testing::Test {
 protected:
  BatchInput Input(const std::string& text, const std::string& settings = "s") {
    WriteText(path_, text);
    return BatchInput(path_, settings);
  }
  static std::string Problem(const BatchInput& input, size_t index) {
    const auto read = input.Read(index);
    const auto* problem = std::get_if<BatchProblem>(&read);
    return problem == nullptr ? "" : problem->code;
  }
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "in.jsonl";
};

TEST_F(Batches, BlankLinesMarksAndLineEndsOfOtherSystemsAreNothing) {
  const BatchInput input = Input("\xef\xbb\xbf" + TextLine("a", "{}") + "\r\n  \n" +
                                 TextLine("b", "{}").substr(0, TextLine("b", "{}").size() - 1) +
                                 "\r\n" + TextLine("c", "{}"));
  ASSERT_EQ(input.lines().size(), 3U);
  EXPECT_EQ(input.lines()[1].number, 4U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::get<BatchRequest>(input.Read(i)).custom_id, std::string(1, "abc"[i]));
    EXPECT_EQ(input.Find(input.lines()[i].id), i);
  }
  EXPECT_TRUE(input.HasCustomId("c"));
  EXPECT_FALSE(input.HasCustomId("d"));
  EXPECT_FALSE(input.demand().scores);
  EXPECT_EQ(Input("").lines().size(), 0U);
}

TEST_F(Batches, AnIdDependsOnTheRequestAndTheSettingsAndNotOnThePlace) {
  const BatchId id = Input(TextLine("a", "{}")).lines()[0].id;
  EXPECT_EQ(Input("\n" + TextLine("z", "{}") + TextLine("a", "{}")).lines()[1].id, id);
  EXPECT_NE(Input(TextLine("a", "{}"), "other").lines()[0].id, id);
  EXPECT_NE(Input(TextLine("a", R"({"seed": 1})")).lines()[0].id, id);
}

TEST_F(Batches, ASecondLineOfAnIdIsAProblemAndTheFirstIsNot) {
  const BatchInput input = Input(TextLine("a", "{}") + TextLine("a", "{}") + "x\nx\n");
  EXPECT_EQ(Problem(input, 0), "");
  EXPECT_EQ(Problem(input, 1), "duplicate_custom_id");
  EXPECT_EQ(input.lines()[1].twin, 1U);
  EXPECT_EQ(Problem(input, 3), "invalid_json");
  std::set<BatchId> ids;
  for (const BatchLine& line : input.lines()) ids.insert(line.id);
  EXPECT_EQ(ids.size(), 4U);
}

TEST_F(Batches, ALineThatIsTooLongIsAProblem) {
  const BatchInput input =
      Input(TextLine("a", "{}") + std::string(kMostBatchLineBytes + 1, 'x') + "\n");
  EXPECT_EQ(Problem(input, 1), "line_too_long");
  EXPECT_LT(input.demand().longest_line_bytes, 100U);
}

TEST_F(Batches, AFileThatChangesMeanwhileIsRefused) {
  const BatchInput input = Input(TextLine("a", "{}"));
  const UniqueFd fd(open(path_.c_str(), O_WRONLY));
  ASSERT_EQ(pwrite(fd.get(), "{\"custom_id\": \"b", 16, 0), 16);
  EXPECT_THROW(static_cast<void>(input.Read(0)), Error);
}

TEST_F(Batches, WhatIsNoFileIsRefused) {
  EXPECT_THROW(BatchInput(folder_.path(), ""), Error);
  EXPECT_THROW(BatchInput(folder_ / "none", ""), Error);
  EXPECT_THROW(BatchInput("/dev/null", ""), Error);
}

}  // namespace
}  // namespace kimi_k3
