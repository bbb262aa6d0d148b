// Python's notion of blank text.
#include "text/python_text.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

TEST(PythonText, BlankIsEmptyOrWhiteSpaceOfAnyKind) {
  for (const char* blank : {"", " ", "\n\t\r ", "\u00A0", "\u3000\u2028", "\x1C\x1F", "\u0085"}) {
    EXPECT_TRUE(IsBlank(blank));
  }
  for (const char* text : {"x", " x ", "\u200B", "\xEF\xBB\xBF", "\xFF", "\xE3\x80", " \xC2"}) {
    EXPECT_FALSE(IsBlank(text));
  }
}

}  // namespace
}  // namespace kimi_k3::text
