// Arguments of generated calls as JSON text.
#include "text/call_builder.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

TEST(ArgumentJson, StringsAreQuotedAndOtherValidJsonIsCopied) {
  EXPECT_EQ(ArgumentJson("a\"\\\n", "string"), R"("a\"\\\n")");
  EXPECT_EQ(ArgumentJson("12", "string"), R"("12")");
  EXPECT_EQ(ArgumentJson("12", std::nullopt), R"("12")");
  EXPECT_EQ(ArgumentJson("", "string"), R"("")");
  EXPECT_EQ(ArgumentJson("1e3", "number"), "1e3");
  EXPECT_EQ(ArgumentJson("{\"a\": [1,2]}", "object"), "{\"a\": [1,2]}");
  EXPECT_EQ(ArgumentJson("true", "boolean"), "true");
  EXPECT_EQ(ArgumentJson("7", "integer"), "7");
}

TEST(ArgumentJson, BrokenValuesStayVisibleAsStrings) {
  EXPECT_EQ(ArgumentJson("12abc", "number"), R"("12abc")");
  EXPECT_EQ(ArgumentJson("{\"a\": [1,", "object"), R"("{\"a\": [1,")");
  EXPECT_EQ(ArgumentJson("", "null"), R"("")");
  EXPECT_EQ(ArgumentJson("x", "colour"), R"("x")");
  EXPECT_EQ(ArgumentJson("\xE4\xB8", "string"), "\"\uFFFD\"");
  const std::string deep = Repeat("[", 1000) + Repeat("]", 1000);
  EXPECT_EQ(ArgumentJson(deep, "array"), '"' + deep + '"');
}

TEST(CallBuilder, WritesAnObjectInOrder) {
  CallBuilder builder("f");
  EXPECT_EQ(builder.Build()->arguments, "{}");
  builder.AddArgument("b\"", "1");
  builder.AddArgument("a", "\"x\"");
  builder.AddArgument("b\"", "2");
  EXPECT_EQ(builder.Build()->name, "f");
  EXPECT_EQ(builder.Build()->id, "");
  EXPECT_EQ(builder.Build()->arguments, R"({"b\"": 2, "a": "x"})");
}

TEST(CallBuilder, AJsonBlockIsPassedOnAsItIs) {
  CallBuilder builder("f");
  builder.AddArgument("a", "1");
  builder.SetJsonBlock("{\"city\":");
  EXPECT_EQ(builder.Build()->arguments, "{\"city\":");
  builder.SetJsonBlock(" ");
  EXPECT_EQ(builder.Build()->arguments, R"({"a": 1})");
}

TEST(CallBuilder, ACallWithoutANameIsNone) { EXPECT_FALSE(CallBuilder("").Build()); }

}  // namespace
}  // namespace kimi_k3::text
