// Columns and control characters of text on a terminal.
#include "cli/terminal_text.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(ColumnAfter, CountsCharactersNotBytes) {
  EXPECT_EQ(ColumnAfter("", 80), 0U);
  EXPECT_EQ(ColumnAfter("abc", 80), 3U);
  EXPECT_EQ(ColumnAfter("caf\xc3\xa9", 80), 4U);
  EXPECT_EQ(ColumnAfter("cafe\xcc\x81", 80), 4U) << "a combining accent";
  EXPECT_EQ(ColumnAfter("\xe4\xb8\xad\xe6\x96\x87", 80), 4U) << "two wide characters";
  EXPECT_EQ(ColumnAfter("\xf0\x9f\x98\x80", 80), 2U) << "an emoji";
}

TEST(ColumnAfter, AFullRowEndsAtTheWidthAndTheNextCharacterBeginsAnother) {
  EXPECT_EQ(ColumnAfter("abcd", 5), 4U);
  EXPECT_EQ(ColumnAfter("abcde", 5), 5U);
  EXPECT_EQ(ColumnAfter("abcdef", 5), 1U);
  EXPECT_EQ(ColumnAfter("abcdefghij", 5), 5U);
  EXPECT_EQ(ColumnAfter("abcd\xe4\xb8\xad", 5), 2U) << "a wide one does not fit in one column";
  EXPECT_EQ(ColumnAfter("abc", 1), 1U);
}

TEST(ColumnAfter, TabsGoToTheNextEighthColumnButNotBeyondTheRow) {
  EXPECT_EQ(ColumnAfter("\t", 80), 8U);
  EXPECT_EQ(ColumnAfter("abc\td", 80), 9U);
  EXPECT_EQ(ColumnAfter("\t\t", 12), 11U);
}

TEST(VisibleText, LeavesTextAndShowsWhatATerminalWouldObey) {
  EXPECT_EQ(VisibleText("a\tb\nc \xe4\xb8\xad"), "a\tb\nc \xe4\xb8\xad");
  EXPECT_EQ(VisibleText("\x1b[2J\x07\x7f"), "^[[2J^G^?");
  EXPECT_EQ(VisibleText(std::string_view("\0x", 2)), "^@x");
  EXPECT_EQ(VisibleText("line\r\n"), "line\n");
  EXPECT_EQ(VisibleText("\xc2\x9b"
                        "2J"),
            "\xef\xbf\xbd"
            "2J")
      << "U+009B begins a control sequence too";
  EXPECT_EQ(VisibleText("\xc2\xa0"), "\xc2\xa0");
}

}  // namespace
}  // namespace kimi_k3
