#include "grammar/json_forms.h"

#include <nlohmann/json.hpp>

#include "grammar/grammar_test_support.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3::grammar {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonForms, TakeWhatJsonAllows) {
  const auto form = FormOf("true");
  for (const char* text : {"null", "true", "false", "0", "-0", "12", "-1.5", "1e5", "2.50E-07",
                           "\"\"", "\"a\xc3\xa9\"", R"("\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00")", "[]",
                           "[1, 2,3]", "{}", "{\"a\":1}", "{\"a\": {\"b\": [{}]}}",
                           "{\n  \"a\": [\n    1,\n    2\n  ]\n}", "{\n\t\"a\": 1\n}"}) {
    EXPECT_TRUE(Matches(form, text)) << text;
  }
}

TEST(JsonForms, RefuseWhatJsonDoesNotAllow) {
  const auto form = FormOf("true");
  for (const char* text : {"",
                           "nul",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "1e",
                           "'a'",
                           "\"a",
                           "\"\x01\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           R"("\uD800")",
                           R"("\uDC00")",
                           R"("\uD800x")",
                           "\"\xc3\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "{}x",
                           "[1 2]",
                           " 1",
                           "1 ",
                           "NaN"}) {
    EXPECT_FALSE(Matches(form, text)) << text;
  }
}

TEST(JsonForms, LimitWhatSaysNothing) {
  const auto form = FormOf("true");
  EXPECT_FALSE(Matches(form, "[  1]"));
  EXPECT_FALSE(Matches(form, "[\n\n1]"));
  EXPECT_TRUE(Matches(form, "[\n" + std::string(32, ' ') + "1]"));
  EXPECT_FALSE(Matches(form, "[\n" + std::string(33, ' ') + "1]"));
  EXPECT_TRUE(Matches(form, std::string(40, '9')));
  EXPECT_FALSE(Matches(form, std::string(41, '9')));
  EXPECT_FALSE(Matches(form, "1e100"));
}

TEST(JsonForms, RandomTextsAreJson) {
  Matcher matcher(FormOf("true"));
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const std::string text = RandomText(matcher, random);
    EXPECT_TRUE(IsValidUtf8(text));
    EXPECT_TRUE(Json::accept(text)) << text;
  }
}

Json RandomValue(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(uint64_t{random()} * uint64_t{random()});
    case 3:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    case 4: {
      std::string text;
      for (size_t i = random() % 9; i > 0; --i) {
        const char* const parts[] = {"a", "\"", "\\", "\n", "\x01", "\xc3\xa9", "\xf0\x9f\x98\x80"};
        text += parts[random() % 7];
      }
      return text;
    }
    case 5: {
      Json array = Json::array();
      for (size_t i = random() % 4; i > 0; --i) array.push_back(RandomValue(random, depth - 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (size_t i = random() % 4; i > 0; --i) {
        object[std::to_string(random() % 50)] = RandomValue(random, depth - 1);
      }
      return object;
    }
  }
}

TEST(JsonForms, TakeRandomValuesAndRefuseWhatOneByteMakesInvalid) {
  const auto form = FormOf("true");
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    const Json value = RandomValue(random, 4);
    for (const int indent : {-1, 2}) {
      std::string text = value.dump(indent);
      EXPECT_TRUE(Matches(form, text)) << text;
      if (text.empty()) continue;
      text[random() % text.size()] = static_cast<char>(random());
      EXPECT_TRUE(!Matches(form, text) || Json::accept(text)) << text;
    }
  }
}

TEST(JsonForms, AStringThatIsNoneOfThoseTakenHasNoDisguise) {
  GrammarBuilder builder;
  JsonForms forms(builder);
  const std::vector<std::string> taken = {"a", "ab", "\xc3\xa9", ""};
  const auto form = std::make_shared<const Grammar>(builder.Finish(forms.OtherString(taken)));
  for (const char* text : {"\"b\"", "\"abc\"", "\"aa\"", "\"\xc3\xa8\"", "\"a\\n\""}) {
    EXPECT_TRUE(Matches(form, text)) << text;
  }
  for (const char* text :
       {"\"\"", "\"a\"", "\"ab\"", "\"\xc3\xa9\"", R"("\u0061")", R"("\u00e9")"}) {
    EXPECT_FALSE(Matches(form, text)) << text;
  }
}

TEST(JsonForms, CharactersAreWrittenAsTheQuotingAsks) {
  EXPECT_EQ(WriteCharacters("a\"\n\x01", Quoting::kJson), R"(a\"\n\u0001)");
  EXPECT_EQ(WriteCharacters("a\"\n", Quoting::kRaw), "a\"\n");
}

}  // namespace
}  // namespace kimi_k3::grammar
