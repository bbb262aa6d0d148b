// Names and ids of special tokens, and names in text.
#include "text/special_tokens.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

SpecialTokens Tokens() {
  return SpecialTokens(100, 106, {{100, "[A]"}, {102, "<|open|>"}, {103, "<|open"}, {105, "é"}});
}

TEST(SpecialTokens, UnnamedIdsHaveReservedNames) {
  const SpecialTokens tokens = Tokens();
  EXPECT_EQ(tokens.first(), 100);
  EXPECT_EQ(tokens.end(), 106);
  EXPECT_EQ(tokens.Name(101), "<|reserved_token_101|>");
  EXPECT_EQ(tokens.Find("<|reserved_token_104|>"), 104);
  EXPECT_EQ(tokens.Find("<|reserved_token_102|>"), std::nullopt);
  EXPECT_EQ(tokens.Find("[A]"), 100);
  EXPECT_EQ(tokens.Find("[A"), std::nullopt);
  EXPECT_EQ(tokens.Find(""), std::nullopt);
}

TEST(SpecialTokens, TheLeftmostAndThenTheLongestNameIsFound) {
  const SpecialTokens tokens = Tokens();
  const auto match = tokens.FindInText("x<|open|>[A]", 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->start, 1U);
  EXPECT_EQ(match->size_bytes, 8U);
  EXPECT_EQ(match->id, 102);
  EXPECT_EQ(tokens.FindInText("x<|open|>[A]", 2)->id, 100);
  EXPECT_EQ(tokens.FindInText("<|open|", 0)->id, 103);
  EXPECT_EQ(tokens.FindInText("<|<|reserved_token_101|>", 0)->start, 2U);
  EXPECT_EQ(tokens.FindInText("caf\xC3\xA9", 0)->id, 105);
  EXPECT_FALSE(tokens.FindInText("<|OPEN|> [a] <|ope", 0));
  EXPECT_FALSE(tokens.FindInText("", 0));
}

}  // namespace
}  // namespace kimi_k3::text
