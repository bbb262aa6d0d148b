// JSON is read so strictly that two readers cannot see two different texts.
#include "checkpoint/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string RefusalOf(std::string_view text) {
  try {
    ParseStrictJson(text, "x.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_THAT(error.what(), StartsWith("x.json: "));
    return error.what();
  }
  return "";
}

TEST(StrictJson, ParsesWhatIsValid) {
  const nlohmann::json json = ParseStrictJson(R"( {"a": {"b": [1, 2.5, null]}, "b": "é"} )", "x");
  EXPECT_EQ(json["a"]["b"][1], 2.5);
  EXPECT_EQ(json["b"], "é");
}

TEST(StrictJson, RefusesARepeatedKeyAndNamesIt) {
  EXPECT_THAT(RefusalOf(R"({"a": {"b": 1, "b": 1}})"), HasSubstr("key a.b is repeated"));
  EXPECT_THAT(RefusalOf(R"({"w": 1, "\u0077": 1})"), HasSubstr("key w is repeated"));
  EXPECT_EQ(RefusalOf(R"({"a": {"x": 1}, "b": {"x": 1}, "c": [{"x": 1}, {"x": 1}]})"), "");
}

TEST(StrictJson, NamesTheFieldOfANumberBeyondRange) {
  EXPECT_THAT(RefusalOf(R"({"a": {"size": 1e999}})"), HasSubstr("a.size is 1e999"));
}

TEST(StrictJson, RefusesDeepNestingWithoutRecursion) {
  EXPECT_THAT(RefusalOf(std::string(1'000'000, '[')), HasSubstr("nested more than 64 deep"));
  EXPECT_EQ(RefusalOf(std::string(64, '[') + std::string(64, ']')), "");
}

TEST(StrictJson, RefusesAByteOrderMark) {
  EXPECT_THAT(RefusalOf("\xef\xbb\xbf{}"), HasSubstr("byte order mark"));
}

TEST(StrictJson, SaysWhereTheSyntaxIsWrong) {
  EXPECT_THAT(RefusalOf("{\n\"a\": ,}"), HasSubstr("line 2"));
  EXPECT_THAT(RefusalOf(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf("{} {}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf("{\"a\": \"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf("{'a': 1}"), HasSubstr("not valid JSON"));
}

TEST(StrictJson, RefusesAZeroByteAndWhatMayFollowIt) {
  EXPECT_THAT(RefusalOf(std::string("{}\0garbage", 10)), HasSubstr("NUL byte (at offset 2)"));
  EXPECT_THAT(RefusalOf(std::string("{}\0", 3)), HasSubstr("NUL byte"));
}

}  // namespace
}  // namespace kimi_k3
