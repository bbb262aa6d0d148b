// Pieces of text, written out by hand from the vendor's pattern.
#include "text/splitter.h"

#include <random>

#include "text/code_point.h"
#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

std::vector<std::string> Pieces(std::string_view text) {
  std::vector<std::string> pieces;
  ForEachPiece(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::vector<std::string> Parts(std::string_view text) {
  std::vector<std::string> parts;
  ForEachPart(text, [&](std::string_view part) { parts.emplace_back(part); });
  return parts;
}

using List = std::vector<std::string>;

TEST(Splitter, WordsTakeOneLeadingNonLetterAndSplitAtCapitals) {
  EXPECT_EQ(Pieces("Hello world"), (List{"Hello", " world"}));
  EXPECT_EQ(Pieces("HTMLParser"), (List{"HTMLParser"}));
  EXPECT_EQ(Pieces("camelCase"), (List{"camel", "Case"}));
  EXPECT_EQ(Pieces("(abc)"), (List{"(abc", ")"}));
  EXPECT_EQ(Pieces("\tx\n.y"), (List{"\tx", "\n", ".y"}));
  EXPECT_EQ(Pieces("ABC"), (List{"ABC"}));
  EXPECT_EQ(Pieces(" ABC"), (List{" ABC"}));
  EXPECT_EQ(Pieces("あAあBc"), (List{"あAあBc"}));
  EXPECT_EQ(Pieces("あAB"), (List{"あ", "AB"}));
}

TEST(Splitter, ContractionsBelongToTheWordInAnyCase) {
  EXPECT_EQ(Pieces("don't DON'T Don't"), (List{"don't", " DON'T", " Don't"}));
  EXPECT_EQ(Pieces("we'll've I'M he'd"), (List{"we'll", "'ve", " I'M", " he'd"}));
  EXPECT_EQ(Pieces("x'Re y'lL z'x"), (List{"x'Re", " y'lL", " z", "'x"}));
  EXPECT_EQ(Pieces("it'\xC5\xBF"), (List{"it'\xC5\xBF"}));
  EXPECT_EQ(Pieces("don’t"), (List{"don", "’t"}));
  EXPECT_EQ(Pieces("it's's"), (List{"it's", "'s"}));
}

TEST(Splitter, HanRunsStandApart) {
  EXPECT_EQ(Pieces(" 中文"), (List{" ", "中文"}));
  EXPECT_EQ(Pieces("中A's"), (List{"中", "A's"}));
  EXPECT_EQ(Pieces("“Hi”中文“Hi”"), (List{"“Hi", "”", "中文", "“Hi", "”"}));
  EXPECT_EQ(Pieces("中——文"), (List{"中", "——", "文"}));
  EXPECT_EQ(Pieces("カナ中かな한글"), (List{"カナ", "中", "かな한글"}));
  EXPECT_EQ(Pieces("\xF0\xA0\x80\x80x"), (List{"\xF0\xA0\x80\x80", "x"}));
  EXPECT_EQ(Pieces("!⺀"), (List{"!⺀"}));
  EXPECT_EQ(Pieces("⺀!"), (List{"⺀", "!"}));
  EXPECT_EQ(Pieces("1〇〇〇"), (List{"1〇〇", "〇"}));
}

TEST(Splitter, FullStopsTakeTheirLineEnds) {
  EXPECT_EQ(Pieces("天。\n\n　　地"), (List{"天", "。\n\n", "　", "　", "地"}));
  EXPECT_EQ(Pieces("天。\r\n地"), (List{"天", "。\r\n", "地"}));
  EXPECT_EQ(Pieces("!\n/x"), (List{"!\n", "/x"}));
  EXPECT_EQ(Pieces("a\\n"), (List{"a", "\\n"}));
  EXPECT_EQ(Pieces(" ...\n x"), (List{" ...\n", " x"}));
}

TEST(Splitter, DigitsComeInThrees) {
  EXPECT_EQ(Pieces("1234567"), (List{"123", "456", "7"}));
  EXPECT_EQ(Pieces(" 20"), (List{" ", "20"}));
  EXPECT_EQ(Pieces("3.14"), (List{"3", ".", "14"}));
  EXPECT_EQ(Pieces("０１２３"), (List{"０１２", "３"}));
  EXPECT_EQ(Pieces("a1b"), (List{"a", "1", "b"}));
}

TEST(Splitter, WhiteSpaceLeavesItsLastCharacterToWhatFollows) {
  EXPECT_EQ(Pieces("a  b"), (List{"a", " ", " b"}));
  EXPECT_EQ(Pieces("a    b"), (List{"a", "   ", " b"}));
  EXPECT_EQ(Pieces("    return"), (List{"   ", " return"}));
  EXPECT_EQ(Pieces("\t\tx"), (List{"\t", "\tx"}));
  EXPECT_EQ(Pieces("a   "), (List{"a", "   "}));
  EXPECT_EQ(Pieces("a  1"), (List{"a", " ", " ", "1"}));
  EXPECT_EQ(Pieces("a \n \n  b"), (List{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(Pieces("\n\n"), (List{"\n\n"}));
  EXPECT_EQ(Pieces("x \r\n"), (List{"x", " \r\n"}));
}

TEST(Splitter, MarksAreLettersAndPunctuation) {
  EXPECT_EQ(Pieces("e\xCC\x81t"), (List{"e\xCC\x81t"}));
  EXPECT_EQ(Pieces("\xCC\x81"), (List{"\xCC\x81"}));
  EXPECT_EQ(Pieces("👍🏽 👩‍👩‍👧"), (List{"👍🏽", " 👩‍👩‍👧"}));
}

TEST(Splitter, PiecesOfRandomTextAreTheText) {
  std::mt19937 random(11);
  const std::u32string alphabet =
      U"aZé中〇⺀あ1٣'stre \t\n\r.,!\u0301\u3000\u00A0\u200B\U0001F600\U00020000ǅʰ<|>";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) {
      AppendUtf8(alphabet[random() % alphabet.size()], text);
    }
    std::string joined;
    for (const std::string& piece : Pieces(text)) {
      ASSERT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

TEST(Splitter, ShortTextIsOnePart) {
  EXPECT_EQ(Parts(""), List{});
  EXPECT_EQ(Parts("a b"), List{"a b"});
  EXPECT_EQ(Parts(Repeat("a", 25'000)).size(), 1U);
}

TEST(Splitter, RunsAreCutAfter25000CodePoints) {
  EXPECT_EQ(Parts(Repeat("a", 25'001)), (List{Repeat("a", 25'000), "a"}));
  EXPECT_EQ(Parts(Repeat("\n", 50'001)), (List{Repeat("\n", 25'000), Repeat("\n", 25'000), "\n"}));
  EXPECT_EQ(Parts("中" + Repeat("世", 25'000)).size(), 2U);
  EXPECT_EQ(Parts(Repeat("a", 20'000) + " " + Repeat("a", 20'000)).size(), 1U);
  // U+001C counts as white space here, though not in the pattern.
  EXPECT_EQ(Parts(Repeat("a", 15'000) + "\x1C" + Repeat("a", 15'001)).size(), 1U);
}

TEST(Splitter, ChunksAreCutAfter400000CodePoints) {
  const List parts = Parts(Repeat("ab ", 133'333) + "wonderful");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1], "onderful");
}

TEST(Splitter, TheRunStartsAnewInEachChunk) {
  const std::string text = Repeat("a ", 195'000) + Repeat("b", 10'000) + Repeat("c", 25'000);
  const List parts = Parts(text);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1], Repeat("c", 25'000));
}

}  // namespace
}  // namespace kimi_k3::text
