// Streams of bytes cut anywhere against the replacement of the whole.
#include "kimi_k3/utf8.h"

#include <random>

#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

std::string Streamed(const std::vector<std::string>& parts) {
  Utf8Stream stream;
  std::string out;
  for (const std::string& part : parts) {
    const std::string shown = stream.Append(part);
    EXPECT_TRUE(IsValidUtf8(shown));
    EXPECT_LE(stream.held_bytes(), 3U);
    out += shown;
  }
  return out + stream.Flush();
}

TEST(Utf8, KnowsWellFormedFromIllFormed) {
  for (const char* good : {"", "a", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << testing::PrintToString(std::string(good));
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE4\xB8",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "abcdefghij\x80"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << testing::PrintToString(std::string(bad));
  }
}

TEST(Utf8, EachMaximalIllFormedPartIsReplacedOnce) {
  const std::string r = kReplacement;
  EXPECT_EQ(ReplaceInvalidUtf8("A\xFF"
                               "B"),
            "A" + r + "B");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE4\xBD"), r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98"
                               "A"),
            r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\x80"), r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF5\x80\x80\x80"), r + r + r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\xF0\x9F\x98\x80"), r + "\xF0\x9F\x98\x80");
  EXPECT_EQ(ReplaceInvalidUtf8(std::string("\0", 1)), std::string("\0", 1));
}

TEST(Utf8Stream, ACharacterAppearsOnlyWhenItIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Append("\xF0\x9F"), "");
  EXPECT_EQ(stream.held_bytes(), 2U);
  EXPECT_EQ(stream.Append("\x98"), "");
  EXPECT_EQ(stream.Append("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(stream.held_bytes(), 0U);
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Utf8Stream, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Append("x\xE4\xB8"), "x");
  EXPECT_EQ(stream.Flush(), kReplacement);
  EXPECT_EQ(stream.Flush(), "");
  EXPECT_EQ(stream.Append("y"), "y");
}

TEST(Utf8Stream, ABrokenByteDoesNotHoldBackWhatFollows) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Append("\xE4"), "");
  EXPECT_EQ(stream.Append("A"), std::string(kReplacement) + "A");
  EXPECT_EQ(stream.Append("\xFF"), kReplacement);
}

TEST(Utf8Stream, AnyCutGivesTheReplacementOfTheWhole) {
  const std::vector<std::string> samples = {"a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80z",
                                            "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9",
                                            "\xE4\xB8\xF0\x9F\x98\xC3(\xED\xA0\x80\xF4\x90"};
  for (const std::string& sample : samples) {
    for (size_t i = 0; i <= sample.size(); ++i) {
      for (size_t j = i; j <= sample.size(); ++j) {
        EXPECT_EQ(Streamed({sample.substr(0, i), sample.substr(i, j - i), sample.substr(j)}),
                  ReplaceInvalidUtf8(sample));
      }
    }
  }
}

TEST(Utf8Stream, RandomBytesInRandomPartsGiveTheReplacementOfTheWhole) {
  std::mt19937 random(7);
  const std::string alphabet = "aZ\x80\xBF\xC2\xE0\xA0\xED\x9F\xF0\x90\xF4\x8F\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> parts(1 + random() % 4);
    std::string whole;
    for (std::string& part : parts) {
      for (size_t n = random() % 6; n > 0; --n) part += alphabet[random() % alphabet.size()];
      whole += part;
    }
    ASSERT_EQ(Streamed(parts), ReplaceInvalidUtf8(whole));
    ASSERT_TRUE(IsValidUtf8(ReplaceInvalidUtf8(whole)));
  }
}

}  // namespace
}  // namespace kimi_k3
