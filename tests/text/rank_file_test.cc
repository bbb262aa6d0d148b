// Rank files: the good one, and everything that is refused.
#include "text/rank_file.h"

#include <gmock/gmock.h>

#include <sstream>

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

using testing::HasSubstr;

const std::string& GoodFile() {
  static const std::string file = ReadText(SmallFolder() / "tiktoken.model");
  return file;
}

std::vector<std::string> Lines() {
  std::vector<std::string> lines;
  std::istringstream in(GoodFile());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string Join(const std::vector<std::string>& lines) {
  std::string file;
  for (const std::string& line : lines) file += line + "\n";
  return file;
}

// The small file with one line replaced; lines count from 1.
std::string WithLine(size_t number, const std::string& line) {
  std::vector<std::string> lines = Lines();
  lines.at(number - 1) = line;
  return Join(lines);
}

std::string Refusal(const std::string& file) {
  const Error error = ErrorOf([&] { ParseRankFile(file, "m/tiktoken.model"); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_THAT(error.what(), HasSubstr("m/tiktoken.model"));
  return error.what();
}

TEST(RankFile, ReadsTokensInRankOrder) {
  const Vocabulary vocabulary = ParseRankFile(GoodFile(), "f");
  EXPECT_EQ(vocabulary.size(), 756);
  EXPECT_EQ(vocabulary.Bytes(0), "!");
  EXPECT_EQ(vocabulary.Bytes(256), "he");
  EXPECT_EQ(vocabulary.Find(" the"), 259);
}

TEST(RankFile, TheLastLineNeedsNoLineEnd) {
  EXPECT_EQ(ParseRankFile(GoodFile().substr(0, GoodFile().size() - 1), "f").size(), 756);
}

TEST(RankFile, MalformedLinesAreRefusedWithTheirNumber) {
  for (const char* line :
       {"", " ", "aGU=", "aGU= ", " 257", "aGU=257", "aGU=  257", "aGU= 257 ", "aGU=\t257",
        "aGU= 0257", "aGU= +257", "aGU= -257", "aGU= 0x101", "aGU= 2.57", "aGU= 257\r",
        "aGU= 99999999999999999999", "aGU= 257 extra"}) {
    EXPECT_THAT(Refusal(WithLine(258, line)), HasSubstr("line 258:")) << line;
  }
}

TEST(RankFile, BrokenBase64IsRefused) {
  // Missing, surplus and misplaced padding, foreign letters, unused bits that are not zero.
  for (const char* token : {"eHl6eg", "eHl6e===", "====", "=", "eHl6ZQ=a", "eHl6Z-==", "eHl6Z_==",
                            "eHl6ZR==", "eHl6ZXn=", "eHl6 Q==", "eHl\xC3\xA9", "eHl6Z", "eH=6"}) {
    const std::string message = Refusal(WithLine(300, std::string(token) + " 299"));
    EXPECT_THAT(message, HasSubstr("line 300:")) << token;
  }
  EXPECT_THAT(Refusal(WithLine(300, "eHl6ZR== 299")), HasSubstr("not canonical base64"));
}

TEST(RankFile, GapsDuplicatesAndDisorderAreRefused) {
  EXPECT_THAT(Refusal(WithLine(300, "eHl6emE= 300")), HasSubstr("rank 300 where 299 is due"));
  EXPECT_THAT(Refusal(WithLine(300, "eHl6emE= 298")), HasSubstr("line 300"));
  EXPECT_THAT(Refusal(WithLine(300, "aGU= 299")), HasSubstr("already that of rank 256"));
  std::vector<std::string> lines = Lines();
  lines.erase(lines.begin() + 400);
  EXPECT_THAT(Refusal(Join(lines)), HasSubstr("line 401: rank 401 where 400 is due"));
  std::swap(lines[10], lines[11]);
  EXPECT_THAT(Refusal(Join(lines)), HasSubstr("line 11:"));
}

TEST(RankFile, AMissingByteIsRefused) {
  const std::string refusal = Refusal(WithLine(1, "eHl6emE= 0"));
  EXPECT_THAT(refusal, HasSubstr("0x21"));
}

TEST(RankFile, HugeTokensAreRefused) {
  const std::string token = Repeat("QUFB", 100'000);
  EXPECT_THAT(Refusal(WithLine(257, token + " 256")), HasSubstr("line 257: the token is about"));
  EXPECT_EQ(ParseRankFile(GoodFile() + Repeat("QUFB", 341) + " 756\n", "f").size(), 757);
  EXPECT_THAT(Refusal(GoodFile() + Repeat("QUFB", 342) + " 756\n"), HasSubstr("line 757"));
}

TEST(RankFile, OtherKindsOfFilesAreNamed) {
  EXPECT_THAT(Refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(Refusal("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
              HasSubstr("Git LFS pointer"));
  EXPECT_THAT(Refusal("{\"model\": {}}"), HasSubstr("is JSON"));
  EXPECT_THAT(Refusal(std::string(1000, '\0')), HasSubstr("line 1:"));
}

TEST(RankFile, MessagesHoldNoControlCharacters) {
  const std::string message = Refusal(WithLine(257, "\x1B[31m\x07 256"));
  for (const char c : message) EXPECT_GE(c, ' ');
}

TEST(RankFile, ATruncatedFileNeverCrashes) {
  for (size_t size = 0; size < GoodFile().size(); size += 7) {
    const std::string file = GoodFile().substr(0, size);
    try {
      EXPECT_LE(ParseRankFile(file, "f").size(), 756);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    }
  }
}

}  // namespace
}  // namespace kimi_k3::text
