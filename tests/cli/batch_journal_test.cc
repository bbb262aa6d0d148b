// Answers that were begun.
#include "cli/batch_journal.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/batch_files.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

class BatchJournals : public testing::Test {
 protected:
  BatchJournals() { WriteText(in_, TextLine("a", "{}") + TextLine("b", "{}")); }

  TemporaryFolder folder_;
  const std::string in_ = folder_ / "in.jsonl";
  const std::string out_ = folder_ / "out.jsonl";
  const std::string path_ = out_ + ".begun";
};

TEST_F(BatchJournals, GiveBackWhatWasNotedInALaterRun) {
  const BatchInput input(in_, "s");
  BatchOutput output(out_, input);
  {
    BatchJournal journal(input, output);
    EXPECT_EQ(journal.begun(), 0U);
    journal.Sync();
    EXPECT_FALSE(std::filesystem::exists(path_));
    journal.Note(0, 0, 10);
    journal.Note(0, 1, 11);
    journal.Note(1, 0, 20);
    journal.Sync();
    journal.Note(0, 2, 12);
    journal.Sync();
    journal.Note(0, 3, 13);  // and is killed
  }
  {
    BatchJournal journal(input, output);
    EXPECT_EQ(journal.begun(), 2U);
    EXPECT_EQ(journal.TakeBegun(0), (std::vector<TokenId>{10, 11, 12}));
    EXPECT_TRUE(journal.TakeBegun(0).empty());
    journal.Note(0, 3, 13);
    journal.Sync();
  }
  output.Add(1, BatchResultLine(input.lines()[1].id, "b", 200, "{}"), true);
  BatchJournal journal(input, output);
  EXPECT_EQ(journal.begun(), 1U);
  EXPECT_EQ(journal.TakeBegun(0), (std::vector<TokenId>{10, 11, 12, 13}));
  journal.Remove();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(BatchJournals, OfOtherRequestsOrFlagsAreKeptAndRefused) {
  const BatchInput input(in_, "s");
  {
    BatchOutput output(out_, input);
    BatchJournal journal(input, output);
    journal.Note(0, 0, 10);
    journal.Sync();
  }
  const BatchInput other(in_, "other flags");
  const BatchOutput output(out_, other);
  try {
    const BatchJournal journal(other, output);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("holds 1 answer begun"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(BatchJournals, BelieveNothingThatDoesNotAddUp) {
  const BatchInput input(in_, "s");
  const BatchOutput output(out_, input);
  const std::string id = input.lines()[0].id.Name();
  const std::string begin = R"({"id":")" + id + R"(","from":)";
  WriteText(path_, begin + "1,\"tokens\":[9]}\n" +  // nothing stands before it
                       begin + "0,\"tokens\":[1,2]}\n" + begin +
                       "3,\"tokens\":[9]}\n" +  // one is missing
                       begin + "2,\"tokens\":[3,-1.5]}\n" + "\xff\n{}\n[]\n" +
                       R"({"id":"batch_req_0","from":0,"tokens":[1]})" + "\n" + begin +
                       "2,\"tokens\":[3]}\n" + begin + "3,\"tok");
  BatchJournal journal(input, output);
  EXPECT_EQ(journal.begun(), 1U);
  EXPECT_EQ(journal.TakeBegun(0), (std::vector<TokenId>{1, 2, 3}));
}

}  // namespace
}  // namespace kimi_k3
