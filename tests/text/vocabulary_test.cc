// Byte strings by rank and ranks by byte string.
#include "text/vocabulary.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

TEST(Vocabulary, GivesIdsInOrderAndFindsThemAgain) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.Find("a"), std::nullopt);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(vocabulary.Append("token " + std::to_string(i)));
  ASSERT_TRUE(vocabulary.Append(std::string("\0\xFF", 2)));
  EXPECT_EQ(vocabulary.size(), 5001);
  for (int i = 0; i < 5000; ++i) {
    const std::string token = "token " + std::to_string(i);
    ASSERT_EQ(vocabulary.Find(token), i);
    ASSERT_EQ(vocabulary.Bytes(i), token);
  }
  EXPECT_EQ(vocabulary.Find(std::string("\0\xFF", 2)), 5000);
  EXPECT_EQ(vocabulary.Find(std::string("\0", 1)), std::nullopt);
  EXPECT_EQ(vocabulary.Find("token 5000"), std::nullopt);
  EXPECT_EQ(vocabulary.Find(Repeat("long", 1000)), std::nullopt);
}

TEST(Vocabulary, AByteStringIsOneTokenOnly) {
  Vocabulary vocabulary;
  EXPECT_TRUE(vocabulary.Append("a"));
  EXPECT_TRUE(vocabulary.Append("b"));
  EXPECT_FALSE(vocabulary.Append("a"));
  EXPECT_EQ(vocabulary.size(), 2);
  EXPECT_EQ(vocabulary.Find("a"), 0);
}

}  // namespace
}  // namespace kimi_k3::text
