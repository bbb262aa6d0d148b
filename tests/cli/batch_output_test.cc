// Results of a batch: what is in the file is whole, and is taken up again.
#include "cli/batch_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/batch_files.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

class BatchResults : public testing::Test {
 protected:
  BatchResults() { WriteText(in_, TextLine("a", "{}") + TextLine("b", "{}") + "broken\n"); }

  std::string Result(size_t index) {
    return BatchResultLine(input().lines()[index].id, index == 0 ? "a" : "b", 200, "{}");
  }
  BatchInput input(const char* settings = "s") { return BatchInput(in_, settings); }
  std::string Refusal(const std::string& text) {
    WriteText(out_, text);
    const BatchInput requests = input();
    try {
      const BatchOutput output(out_, requests);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_EQ(ReadFile(out_), text);
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  const std::string in_ = folder_ / "in.jsonl";
  const std::string out_ = folder_ / "out.jsonl";
};

TEST_F(BatchResults, LinesAreJsonAsOpenAiHasIt) {
  const BatchId id = BatchId::Of({"x"});
  const auto result = nlohmann::json::parse(BatchResultLine(id, "q\"1", 400, R"({"a":1})"));
  EXPECT_EQ(result["id"], id.Name());
  EXPECT_EQ(result["custom_id"], "q\"1");
  EXPECT_EQ(result["response"]["status_code"], 400);
  EXPECT_EQ(result["response"]["request_id"], "req_" + id.Hex());
  EXPECT_EQ(result["response"]["body"]["a"], 1);
  EXPECT_TRUE(result["error"].is_null());
  const auto problem = nlohmann::json::parse(BatchProblemLine(id, {"code", "line 3: \x01", ""}));
  EXPECT_TRUE(problem["custom_id"].is_null());
  EXPECT_TRUE(problem["response"].is_null());
  EXPECT_EQ(problem["error"]["code"], "code");
  EXPECT_EQ(problem["error"]["message"], "line 3: \x01");
}

TEST_F(BatchResults, AreTakenUpByALaterRun) {
  const BatchInput requests = input();
  {
    BatchOutput output(out_, requests);
    EXPECT_EQ(output.results(), 0U);
    output.Add(1, Result(1), true);
    output.Add(2, BatchProblemLine(requests.lines()[2].id, {"c", "m"}), false);
    output.Sync();
  }
  BatchOutput output(out_, requests);
  EXPECT_FALSE(output.has(0));
  EXPECT_TRUE(output.has(1));
  EXPECT_TRUE(output.has(2));
  EXPECT_EQ(output.results(), 2U);
  EXPECT_EQ(output.unanswered(), 1U);
  output.Add(0, Result(0), true);
  output.Sync();
  const std::string text = ReadFile(out_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_TRUE(text.ends_with(Result(0)));
}

TEST_F(BatchResults, ALastLineThatIsTornIsCutOff) {
  const BatchInput requests = input();
  for (const size_t kept : {size_t{1}, size_t{20}, Result(1).size() - 1}) {
    WriteText(out_, Result(0) + Result(1).substr(0, kept));
    const BatchOutput output(out_, requests);
    EXPECT_EQ(output.cut_bytes(), kept);
    EXPECT_TRUE(output.has(0));
    EXPECT_FALSE(output.has(1));
    EXPECT_EQ(ReadFile(out_), Result(0));
  }
  WriteText(out_, Result(0) + std::string(100, '\0'));
  const BatchOutput output(out_, requests);
  EXPECT_EQ(ReadFile(out_), Result(0));
}

TEST_F(BatchResults, FilesOfSomethingElseAreRefusedAndLeftAlone) {
  EXPECT_THAT(Refusal("a letter"), HasSubstr("no file of results"));
  EXPECT_THAT(Refusal("a letter\n"), HasSubstr("line 1 is no result"));
  EXPECT_THAT(Refusal(Result(0) + "{}\n"), HasSubstr("line 2 is no result"));
  EXPECT_THAT(Refusal(BatchResultLine(BatchId::Of({"x"}), "a", 200, "{}")),
              HasSubstr("another request of that name"));
  EXPECT_THAT(Refusal(BatchResultLine(BatchId::Of({"x"}), "c", 200, "{}")),
              HasSubstr("does not ask"));
}

TEST_F(BatchResults, TwoOfTheSameRequestAreRefusedWithTheNumbersOfTheirLines) {
  EXPECT_THAT(Refusal(Result(0) + Result(1) + Result(0)), HasSubstr("lines 1 and 3 answer"));
  const std::string refused = BatchResultLine(input().lines()[1].id, "b", 400, "{}");
  EXPECT_THAT(Refusal(refused + Result(1)), HasSubstr("lines 1 and 2 answer"));
}

TEST_F(BatchResults, OfRefusedRequestsThatAreOthersNowAreRemoved) {
  const std::string was_wrong = BatchProblemLine(BatchId::Of({"x"}), {"c", "line 2: m"});
  const std::string was_refused = BatchResultLine(BatchId::Of({"y"}), "b", 400, "{}");
  WriteText(out_, was_wrong + Result(0) + was_refused + Result(1).substr(0, 20));
  std::filesystem::permissions(
      out_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const BatchInput requests = input();
  {
    BatchOutput output(out_, requests);
    EXPECT_EQ(output.removed(), 2U);
    EXPECT_TRUE(output.has(0));
    EXPECT_FALSE(output.has(1));
    EXPECT_EQ(output.unanswered(), 0U);
    EXPECT_EQ(ReadFile(out_), Result(0));
    EXPECT_EQ(std::filesystem::status(out_).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    // The file that took the place of the other is owned too.
    EXPECT_THROW(BatchOutput(out_, requests), Error);
    output.Add(1, Result(1), true);
    output.Sync();
  }
  EXPECT_EQ(ReadFile(out_), Result(0) + Result(1));
  EXPECT_EQ(BatchOutput(out_, requests).removed(), 0U);
}

TEST_F(BatchResults, AreLeftAloneWhereAnyLineIsRefused) {
  const std::string was_refused = BatchResultLine(BatchId::Of({"y"}), "b", 400, "{}");
  EXPECT_THAT(Refusal(was_refused + BatchResultLine(BatchId::Of({"x"}), "a", 200, "{}")),
              HasSubstr("line 2 answers \"a\", but another request"));
  EXPECT_THAT(Refusal(BatchResultLine(BatchId::Of({"x"}), "c", 400, "{}")),
              HasSubstr("does not ask"));
}

TEST_F(BatchResults, BelongToOneProgramAtATimeAndAreNotTheRequests) {
  const BatchInput requests = input();
  const BatchOutput output(out_, requests);
  EXPECT_THROW(BatchOutput(out_, requests), Error);
  EXPECT_THROW(BatchOutput(in_, requests), Error);
  EXPECT_THROW(BatchOutput(folder_.path(), requests), Error);
}

}  // namespace
}  // namespace kimi_k3
