#include "grammar/pattern.h"

#include <gmock/gmock.h>

#include <regex>

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Grammar> FormOfPattern(std::string_view pattern,
                                             Quoting quoting = Quoting::kRaw) {
  GrammarBuilder builder;
  const Rule rule = builder.NewRule();
  AddPattern(builder, GrammarBuilder::StartOf(rule), pattern, quoting, GrammarBuilder::EndOf(rule));
  return std::make_shared<const Grammar>(builder.Finish(rule));
}

std::string PatternError(std::string_view pattern) {
  try {
    FormOfPattern(pattern);
    return {};
  } catch (const GrammarError& error) {
    return error.what();
  }
}

TEST(Pattern, FindsWhatTheLibraryFinds) {
  const char* const patterns[] = {
      "^a*b$",     "^(a|bc)+$",      "a",        "^a{2,3}$",   "^[^a-c]x?$",  "^\\d+\\.\\w$",
      "^a|b$",     "(ab)*c",         "^(a*)*b$", "^$",         "^(?:a?){3}$", "^.b$",
      "^[a\\]-]$", "^\\x61\\u0062$", "^a+?b*?$", "^[\\d.]{2}$"};
  std::mt19937 random(3);
  for (const char* pattern : patterns) {
    const auto form = FormOfPattern(pattern);
    const std::regex regex(pattern);
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (size_t n = random() % 6; n > 0; --n) text += "abcx1.-]"[random() % 8];
      EXPECT_EQ(Matches(form, text), std::regex_search(text, regex)) << pattern << " " << text;
    }
  }
}

TEST(Pattern, SpeaksOfCharactersNotOfBytes) {
  const auto form = FormOfPattern("^.[^\xc3\xa9]$");
  EXPECT_TRUE(Matches(form, "\xf0\x9f\x98\x80\xc3\xa8"));
  EXPECT_FALSE(Matches(form, "\xc3\xa8"));
  EXPECT_FALSE(Matches(form, "a\xc3\xa9"));
}

TEST(Pattern, InJsonSpecialCharactersAreEscaped) {
  const auto form = FormOfPattern("^[\"\\\\\\n]x$", Quoting::kJson);
  EXPECT_TRUE(Matches(form, "\\\"x"));
  EXPECT_TRUE(Matches(form, "\\\\x"));
  EXPECT_TRUE(Matches(form, "\\nx"));
  EXPECT_FALSE(Matches(form, "\"x"));
}

TEST(Pattern, RefusesWhatItCannotFollow) {
  for (const char* pattern :
       {"(?=a)",  "(?!a)",    "(?<=a)b", "(a)\\1", "\\bword", "\\p{L}",  "a^b",
        "(a$)b",  "*a",       "a**",     "[a",     "(a",      "a)",      "[b-a]",
        "a{3,2}", "a{99999}", "\\",      "a{",     "\\u12",   "\\uD800", "[\\d-z]"}) {
    EXPECT_THAT(PatternError(pattern), HasSubstr("at byte")) << pattern;
  }
  EXPECT_THAT(PatternError(std::string(5000, '(')), HasSubstr("too many groups"));
  EXPECT_THAT(PatternError("((((a{1000}){1000}){1000}){1000})"), HasSubstr("too large"));
  EXPECT_THAT(PatternError("[]"), HasSubstr("nothing that ends"));
}

}  // namespace
}  // namespace kimi_k3::grammar
