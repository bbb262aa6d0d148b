// Names and attributes of generated tags.
#include "text/tag_header.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

using Attributes = std::vector<std::pair<std::string, std::string>>;

TEST(TagHeader, ReadsNameAndAttributes) {
  const TagHeader header = ParseTagHeader("call tool=\"get weather\" index=\"1\"");
  EXPECT_EQ(header.tag, "call");
  EXPECT_EQ(header.attributes, (Attributes{{"tool", "get weather"}, {"index", "1"}}));
  EXPECT_EQ(header.Attribute("tool"), "get weather");
  EXPECT_EQ(header.Attribute("key"), std::nullopt);
  EXPECT_EQ(ParseTagHeader("think").attributes, Attributes{});
  EXPECT_EQ(ParseTagHeader("").tag, "");
}

TEST(TagHeader, UnescapesQuotesBeforeAmpersands) {
  EXPECT_EQ(ParseTagHeader("a k=\"&amp;&quot;&lt;\"").Attribute("k"), "&\"&lt;");
  EXPECT_EQ(ParseTagHeader("a k=\"&amp;quot;\"").Attribute("k"), "&quot;");
  EXPECT_EQ(ParseTagHeader("a k=\"&amp;amp;\"").Attribute("k"), "&amp;");
}

TEST(TagHeader, KeepsWhatComesBeforeAMalformedAttribute) {
  EXPECT_EQ(ParseTagHeader("call tool=\"f\" index=1").attributes, (Attributes{{"tool", "f"}}));
  EXPECT_EQ(ParseTagHeader("call tool=\"f").attributes, Attributes{});
  EXPECT_EQ(ParseTagHeader("call tool=\"f\"index=\"1\"").attributes, (Attributes{{"tool", "f"}}));
}

TEST(TagHeader, ValuesMayHoldAnyBytes) {
  EXPECT_EQ(ParseTagHeader("a k=\"x\ny=\\\"").Attribute("k"), "x\ny=\\");
  EXPECT_EQ(ParseTagHeader("a k=\"\xE4\xB8\"").Attribute("k"), "\uFFFD");
}

}  // namespace
}  // namespace kimi_k3::text
