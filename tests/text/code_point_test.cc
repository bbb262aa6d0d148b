// Reading and writing single code points.
#include "text/code_point.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

TEST(CodePoint, EveryCodePointIsReadAsItWasWritten) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    AppendUtf8(c, bytes);
    const CodePoint point = CodePointAt(bytes, 0);
    ASSERT_EQ(point.value, c);
    ASSERT_EQ(point.size_bytes, bytes.size());
    ASSERT_EQ(ValidUtf8Prefix(bytes), bytes.size());
  }
}

TEST(CodePoint, AValidPrefixEndsBeforeTheFirstIllFormedByte) {
  EXPECT_EQ(ValidUtf8Prefix("0123456789\xFF"), 10U);
  EXPECT_EQ(ValidUtf8Prefix("0123456\xC3\xA9\xC3"), 9U);
}

TEST(CodePoint, UnfinishedDiffersFromIllFormed) {
  EXPECT_EQ(ReadUtf8Prefix("\xE4\xB8").kind, Utf8Prefix::Kind::kUnfinished);
  EXPECT_EQ(ReadUtf8Prefix("\xE4\xB8(").kind, Utf8Prefix::Kind::kIllFormed);
  EXPECT_EQ(ReadUtf8Prefix("\xE4\xB8(").size_bytes, 2U);
  EXPECT_EQ(ReadUtf8Prefix("\xED\xA0").kind, Utf8Prefix::Kind::kIllFormed);
}

}  // namespace
}  // namespace kimi_k3::text
