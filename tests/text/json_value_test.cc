// JSON that keeps digits and order, and says where it is wrong.
#include "text/json_value.h"

#include <gmock/gmock.h>

#include <random>

#include "text/json_text.h"
#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

using testing::HasSubstr;

JsonValue Parse(std::string_view text) {
  JsonParseResult result = ParseJson(text);
  EXPECT_TRUE(result.value) << text << ": " << result.error;
  return result.value.value_or(JsonValue());
}

std::string ParseError(std::string_view text) {
  const JsonParseResult result = ParseJson(text);
  EXPECT_FALSE(result.value) << text;
  return result.error;
}

std::string Again(std::string_view text) { return WriteJson(Parse(text), JsonSpacing::kCompact); }

std::string Nested(size_t depth) { return Repeat("[", depth) + Repeat("]", depth); }

TEST(JsonValue, ReadsEveryKind) {
  const JsonValue value = Parse(
      " { \"n\" : null, \"t\":true,\"f\":false, \"i\":12,\"s\":\"x\",\"a\":[1,[ ]],\"o\":{} }\n");
  ASSERT_TRUE(value.is_object());
  EXPECT_EQ(value.TypeName(), "object");
  EXPECT_TRUE(value.Find("n")->is_null());
  EXPECT_TRUE(value.Find("t")->boolean());
  EXPECT_FALSE(value.Find("f")->boolean());
  EXPECT_EQ(value.Find("i")->number().text, "12");
  EXPECT_EQ(value.Find("s")->string(), "x");
  EXPECT_EQ(value.Find("a")->items().size(), 2U);
  EXPECT_TRUE(value.Find("o")->members().empty());
  EXPECT_EQ(value.Find("absent"), nullptr);
  EXPECT_EQ(value.Find("s")->Find("x"), nullptr);
}

TEST(JsonValue, NumbersKeepTheirText) {
  const std::string huge = "-1" + Repeat("0123456789", 60);
  EXPECT_EQ(Parse(huge).number().text, huge);
  EXPECT_TRUE(Parse(huge).number().is_integer());
  EXPECT_EQ(Parse("1e999").number().text, "1e999");
  EXPECT_FALSE(Parse("1.0").number().is_integer());
  EXPECT_FALSE(Parse("1E2").number().is_integer());
  EXPECT_EQ(Again("[0,-0.5,10,1.25e-3]"), "[0,-0.5,10,0.00125]");
}

TEST(JsonValue, MalformedNumbersAreErrors) {
  for (const char* text : {"01", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "0x10", "NaN",
                           "Infinity", "-Infinity", "1_000", "--1", "-a"}) {
    ParseError(text);
  }
}

TEST(JsonValue, NonFiniteNumbersAreReadWhereAccepted) {
  const auto parse = [](std::string_view text) {
    return ParseJson(text, JsonDuplicates::kLastWins, JsonNonFinite::kAccepted);
  };
  for (const char* text : {"NaN", "Infinity", "-Infinity"}) {
    const JsonParseResult result = parse(text);
    ASSERT_TRUE(result.value) << text;
    EXPECT_FALSE(result.value->number().is_integer());
    EXPECT_EQ(WriteJson(*result.value, JsonSpacing::kCompact), text);
  }
  EXPECT_TRUE(parse("[NaN, -1]").value);
  EXPECT_FALSE(parse("NaNs").value);
  EXPECT_FALSE(parse("-Inf").value);
}

TEST(JsonValue, DuplicateKeysTakeTheLastValueAtTheFirstPlace) {
  EXPECT_EQ(Again(R"({"a":1,"b":2,"a":3,"c":4,"a":5})"), R"({"a":5,"b":2,"c":4})");
  const JsonParseResult refused = ParseJson(R"({"a":1,"a":2})", JsonDuplicates::kRefused);
  EXPECT_FALSE(refused.value);
  EXPECT_THAT(refused.error, HasSubstr("\"a\" twice"));
}

TEST(JsonValue, EscapesAreRead) {
  EXPECT_EQ(Parse(R"("\"\\\/\b\f\n\r\tx")").string(), "\"\\/\b\f\n\r\tx");
  EXPECT_EQ(Parse(R"("\u0041\u00e9\u4E2D\u0000")").string(), std::string("Aé中\0", 7));
  EXPECT_EQ(Parse(R"("\uD83D\uDE00")").string(), "😀");
}

TEST(JsonValue, LoneSurrogatesBecomeReplacementCharacters) {
  EXPECT_EQ(Parse(R"("\uD800")").string(), "\uFFFD");
  EXPECT_EQ(Parse(R"("\uDC00x")").string(), "\uFFFDx");
  EXPECT_EQ(Parse(R"("\uD83Dx")").string(), "\uFFFDx");
  EXPECT_EQ(Parse(R"("\uD83D\uD83D\uDE00")").string(), "\uFFFD😀");
  EXPECT_EQ(Parse(R"("\uD83D\n")").string(), "\uFFFD\n");
  EXPECT_EQ(Parse(R"({"\ude00": 1})").members().at(0).key, "\uFFFD");
}

TEST(JsonValue, ErrorsSayWhereAndWhat) {
  EXPECT_THAT(ParseError("{\n  \"a\": \"\\s\"\n}"), HasSubstr("line 2, column 9 (byte 10)"));
  EXPECT_THAT(ParseError("{\n  \"a\": \"\\s\"\n}"), HasSubstr("\\s"));
  EXPECT_THAT(ParseError("\"\\é\""), HasSubstr("\\é"));
  EXPECT_THAT(ParseError("[1,]"), HasSubstr("column 4"));
  EXPECT_THAT(ParseError("{'a': 1}"), HasSubstr("double quotes"));
  EXPECT_THAT(ParseError("{\"a\": 1"), HasSubstr("'}'"));
  EXPECT_THAT(ParseError(""), HasSubstr("where a value is due"));
  EXPECT_THAT(ParseError("{} {}"), HasSubstr("more text"));
  EXPECT_THAT(ParseError("\"a\nb\""), HasSubstr("0x0A"));
  EXPECT_THAT(ParseError("\xEF\xBB\xBF{}"), HasSubstr("byte order mark"));
  EXPECT_THAT(ParseError("\"\xC3(\""), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(ParseError(std::string_view("{\0}\0", 4)), HasSubstr("double quotes"));
  for (const char* text : {"{\"a\" 1}", "{1: 2}", "[1 2]", "\"x", "\"\\", "\"\\u12", "\"\\u12G4\"",
                           "tru", "nul", "{\"a\":}", "{,}", "]", "}", ","}) {
    ParseError(text);
  }
}

TEST(JsonValue, DeepNestingIsAnErrorNotACrash) {
  EXPECT_TRUE(ParseJson(Nested(63)).value);
  EXPECT_TRUE(ParseJson(Nested(kJsonDepthLimit)).value);
  for (const size_t depth : {129U, 1000U, 10'000U, 1'000'000U}) {
    const JsonParseResult result = ParseJson(Nested(depth));
    EXPECT_FALSE(result.value);
    EXPECT_TRUE(result.too_deep);
    EXPECT_THAT(result.error, HasSubstr("128 levels"));
  }
  EXPECT_TRUE(ParseJson(Repeat("{\"a\":[", 100'000)).too_deep);
  EXPECT_FALSE(ParseJson(Repeat("[],", 1000)).too_deep);
}

TEST(JsonValue, ManyKeysTakeNearLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("\"{}\":1,", i);
  text += "\"7\":2}";
  EXPECT_EQ(Parse(text).members().size(), 200'000U);
}

TEST(JsonValue, DamagedTextNeverCrashes) {
  std::mt19937 random(19);
  const std::string good =
      R"({"a": [1, 2.5e3, "x\n\u00e9\ud83d\ude00", null, true], "b": {"c": {"d": [[]]}}, "é": -0})";
  const std::string alphabet = "{}[]\",:\\u0e-+.tfn \n\x01\x80\xC3";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    text.resize(random() % (text.size() + 1));
    const JsonParseResult result = ParseJson(text);
    ASSERT_NE(result.value.has_value(), !result.error.empty());
    if (result.value) {
      const std::string written = WriteJson(*result.value, JsonSpacing::kSpaced);
      ASSERT_EQ(Again(written), WriteJson(*result.value, JsonSpacing::kCompact));
    }
  }
}

}  // namespace
}  // namespace kimi_k3::text
