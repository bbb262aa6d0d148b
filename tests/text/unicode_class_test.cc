// Classes of code points: sizes of whole sets and single members.
#include "text/unicode_class.h"

#include <algorithm>

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

size_t CountOf(ClassMask mask) {
  size_t count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += (ClassOf(c) & mask) != 0 ? 1 : 0;
  return count;
}

TEST(UnicodeClass, SetsHaveTheSizesOfUnicode16) {
  EXPECT_EQ(CountOf(kHan), 99030U);
  EXPECT_EQ(CountOf(kLetter), 141028U);
  EXPECT_EQ(CountOf(kNumber), 1911U);
  EXPECT_EQ(CountOf(kSpace), 25U);
}

TEST(UnicodeClass, StepsAreSortedAndChangeSomething) {
  EXPECT_TRUE(std::is_sorted(kClassSteps.begin(), kClassSteps.end()));
  for (size_t i = 1; i < kClassSteps.size(); ++i) {
    EXPECT_NE(kClassSteps[i] & 63, kClassSteps[i - 1] & 63);
  }
}

TEST(UnicodeClass, AsciiAgreesWithTheTable) {
  for (char32_t c = 0; c < 0x80; ++c) {
    const auto step = std::find_if(kClassSteps.rbegin(), kClassSteps.rend(),
                                   [c](uint32_t s) { return (s >> 6) <= c; });
    EXPECT_EQ(ClassOf(c), *step & 63) << static_cast<uint32_t>(c);
  }
}

TEST(UnicodeClass, MembersAreWhatTheyShouldBe) {
  EXPECT_EQ(ClassOf(U'中'), kHan | kLetter);
  EXPECT_EQ(ClassOf(U'〇'), kHan | kNumber);
  EXPECT_EQ(ClassOf(U'⺀'), kHan);
  EXPECT_EQ(ClassOf(U'あ'), kUpper | kLower | kLetter);
  EXPECT_EQ(ClassOf(U'É'), kUpper | kLetter);
  EXPECT_EQ(ClassOf(U'é'), kLower | kLetter);
  EXPECT_EQ(ClassOf(0x301), kUpper | kLower);  // a combining accent
  EXPECT_EQ(ClassOf(U'½'), kNumber);
  EXPECT_EQ(ClassOf(0x3000), kSpace);
  EXPECT_EQ(ClassOf(0x200B), 0);  // zero-width space is none
  EXPECT_EQ(ClassOf(0x10FFFF), 0);
  EXPECT_TRUE(IsPunctuation(ClassOf(0x301)));
  EXPECT_FALSE(IsPunctuation(ClassOf(U'a')));
}

TEST(UnicodeClass, PythonSpaceHasFourSeparatorsMore) {
  size_t count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += IsPythonSpace(c) ? 1 : 0;
  EXPECT_EQ(count, 29U);
  EXPECT_TRUE(IsPythonSpace(0x1C));
  EXPECT_TRUE(IsPythonSpace(0x1F));
  EXPECT_FALSE(IsPythonSpace(0x200B));
}

}  // namespace
}  // namespace kimi_k3::text
