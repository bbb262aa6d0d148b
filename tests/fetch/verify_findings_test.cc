// Tests of what a verification notes about files.
#include "fetch/verify_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kimi_k3 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

KnownFiles Known() {
  KnownFiles known;
  for (const char* name : {"a", "b", "c"}) known.files[name] = {"folder", name, {}, {}};
  return known;
}

TEST(VerifyFindings, FilesAreGoodUntilSomethingIsNoted) {
  VerifyFindings findings(Known());
  const VerifyReport report = findings.Take();
  ASSERT_EQ(report.files.size(), 3U);
  EXPECT_TRUE(report.good());
  EXPECT_EQ(report.files[1].path, "folder/b");
}

TEST(VerifyFindings, TheWorstStateStaysAndAProblemIsToldOnce) {
  VerifyFindings findings(Known());
  findings.Note("b", FileState::kUnreadable, "worse");
  findings.Note("b", FileState::kBad, "bad");
  findings.Note("b", FileState::kBad, "bad");
  EXPECT_EQ(findings.StateOf("b"), FileState::kUnreadable);
  const VerifyReport report = findings.Take();
  EXPECT_THAT(report.files[1].problems, ElementsAre("worse", "bad"));
  EXPECT_EQ(report.bad(), 1U);
  EXPECT_TRUE(report.unreadable());
}

TEST(VerifyFindings, LinesOfTheStructureGoToTheFileThatTheyBeginWith) {
  VerifyFindings findings(Known());
  findings.NoteWrongSize("a", "folder/a: is cut");
  findings.NoteStructure("folder/a: ends too soon");  // which its size explains
  findings.NoteStructure("folder/c: has no tensors");
  findings.NoteStructure("a tensor is missing");
  EXPECT_TRUE(findings.HasWrongSize("a"));
  EXPECT_FALSE(findings.HasWrongSize("c"));
  const VerifyReport report = findings.Take();
  EXPECT_THAT(report.files[0].problems, ElementsAre("folder/a: is cut"));
  EXPECT_THAT(report.files[2].problems, ElementsAre("folder/c: has no tensors"));
  EXPECT_THAT(report.problems, ElementsAre("a tensor is missing"));
}

TEST(VerifyFindings, AHeaderIsToldOfWhereNothingIsKnownYet) {
  VerifyFindings findings(Known());
  findings.Note("a", FileState::kBad, "known");
  findings.NoteHeader("a", "header");
  findings.NoteHeader("b", "one\ntwo");
  const VerifyReport report = findings.Take();
  EXPECT_THAT(report.files[0].problems, ElementsAre("known"));
  EXPECT_THAT(report.files[1].problems, ElementsAre("one", "two"));
}

TEST(VerifyFindings, WhereAHashHoldsTheOtherFileIsToBlame) {
  VerifyFindings findings(Known());
  findings.NoteStructure("folder/a: contradicts b");
  findings.NoteStructure("folder/b: contradicts a");
  findings.NoteHashed("a", true, true);
  findings.NoteHashed("b", true, false);
  findings.AcquitGoodFiles();
  const VerifyReport report = findings.Take();
  EXPECT_EQ(report.files[0].state, FileState::kGood);
  EXPECT_THAT(report.files[0].problems, IsEmpty());
  EXPECT_EQ(report.files[1].state, FileState::kBad);
  EXPECT_THAT(report.problems, ElementsAre("folder/a: contradicts b"));
}

TEST(VerifyFindings, SeveralThreadsMayNote) {
  VerifyFindings findings(Known());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        findings.Note(t % 2 == 0 ? "a" : "b", FileState::kBad, std::to_string(i));
        findings.NoteHashed("c", true, true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const VerifyReport report = findings.Take();
  EXPECT_EQ(report.files[0].problems.size(), 50U);
  EXPECT_EQ(report.files[1].problems.size(), 50U);
  EXPECT_TRUE(report.files[2].hash_holds);
}

}  // namespace
}  // namespace kimi_k3
