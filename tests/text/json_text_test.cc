// JSON as Python writes it.
#include "text/json_text.h"

#include <limits>

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

std::string Write(std::string_view json, JsonSpacing spacing,
                  JsonKeyOrder order = JsonKeyOrder::kAsGiven) {
  return WriteJson(ParseJson(json).value.value(), spacing, order);
}

TEST(JsonText, SpacingIsCompactOrPythons) {
  const std::string json = R"( {"b":[1,{"c":null}],"a":{} , "e":[ ]} )";
  EXPECT_EQ(Write(json, JsonSpacing::kCompact), R"({"b":[1,{"c":null}],"a":{},"e":[]})");
  EXPECT_EQ(Write(json, JsonSpacing::kSpaced), R"({"b": [1, {"c": null}], "a": {}, "e": []})");
}

TEST(JsonText, KeysAreSortedByCodePointAtEveryLevel) {
  EXPECT_EQ(Write(R"({"b":1,"a":[{"z":1,"Z":2}],"é":1,"😀":2,"ﬀ":3,"aa":4,"":5})",
                  JsonSpacing::kCompact, JsonKeyOrder::kSorted),
            R"({"":5,"a":[{"Z":2,"z":1}],"aa":4,"b":1,"é":1,"ﬀ":3,"😀":2})");
  EXPECT_EQ(Write("[3,1,2]", JsonSpacing::kCompact, JsonKeyOrder::kSorted), "[3,1,2]");
}

TEST(JsonText, OnlyQuotesBackslashesAndControlsAreEscaped) {
  std::string out;
  AppendJsonString(std::string("\"\\/\n\r\t\b\f\0\x1F\x7F é\u2028😀", 21), out);
  EXPECT_EQ(out, "\"\\\"\\\\/\\n\\r\\t\\b\\f\\u0000\\u001f\x7F é\u2028😀\"");
}

TEST(JsonText, FloatsPrintAsInPython) {
  const std::vector<std::pair<double, std::string>> cases = {
      {1.0, "1.0"},
      {100.0, "100.0"},
      {0.1, "0.1"},
      {-0.0, "-0.0"},
      {0.0, "0.0"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {1.5e-7, "1.5e-07"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {9007199254740993.0, "9007199254740992.0"},
      {1e22, "1e+22"},
      {1e100, "1e+100"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {3.14159, "3.14159"},
      {-2.5, "-2.5"},
      {std::numeric_limits<double>::infinity(), "Infinity"},
      {-std::numeric_limits<double>::infinity(), "-Infinity"},
      {std::numeric_limits<double>::quiet_NaN(), "NaN"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(PythonFloat(value), text);
}

TEST(JsonText, NumbersWithoutFractionOrExponentKeepTheirDigits) {
  const std::string huge = Repeat("9", 400);
  EXPECT_EQ(Write(huge, JsonSpacing::kCompact), huge);
  EXPECT_EQ(Write("[12345678901234567890123, -5, -0, 0]", JsonSpacing::kCompact),
            "[12345678901234567890123,-5,0,0]");
  EXPECT_EQ(Write("[1e2, 1.0, 1e999, -1E999, 1e-999, 2.50]", JsonSpacing::kSpaced),
            "[100.0, 1.0, Infinity, -Infinity, 0.0, 2.5]");
}

}  // namespace
}  // namespace kimi_k3::text
