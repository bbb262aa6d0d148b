// Fields of a JSON request, of right and wrong types and sizes.
#include "server/json_fields.h"

#include <gtest/gtest.h>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

text::JsonValue Field(const std::string& value) {
  return *text::ParseJson("{\"x\": " + value + "}").value;
}

template <typename Read>
void ExpectRefused(const std::string& value, Read read) {
  try {
    read(Field(value));
    ADD_FAILURE() << value << " was taken";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.param(), "x");
    EXPECT_TRUE(std::string(error.what()).starts_with("x: ")) << error.what();
  }
}

TEST(JsonFields, AbsentAndNullHaveNoValue) {
  for (const text::JsonValue& object : {Field("null"), *text::ParseJson("{}").value}) {
    EXPECT_FALSE(BooleanField(object, "x"));
    EXPECT_FALSE(StringField(object, "x"));
    EXPECT_FALSE(NumberField(object, "x", 0, 1));
    EXPECT_FALSE(IntegerField(object, "x", 0, 1));
    EXPECT_FALSE(SeedField(object, "x"));
  }
}

TEST(JsonFields, Numbers) {
  const auto read = [](const text::JsonValue& object) { return NumberField(object, "x", 0, 2); };
  EXPECT_EQ(read(Field("0")), 0.0);
  EXPECT_EQ(read(Field("-0.0")), 0.0);
  EXPECT_EQ(read(Field("2e0")), 2.0);
  EXPECT_EQ(read(Field("1e-9")), 1e-9);
  EXPECT_EQ(read(Field("1e-999")), 0.0);
  for (const char* value :
       {"-0.1", "2.0001", "1e999", "-1e999", "1e30", "\"1\"", "true", "[]", "{}"}) {
    ExpectRefused(value, read);
  }
}

TEST(JsonFields, WholeNumbers) {
  const auto read = [](const text::JsonValue& object) {
    return IntegerField(object, "x", 1, INT64_MAX);
  };
  EXPECT_EQ(read(Field("1")), 1);
  EXPECT_EQ(read(Field("9223372036854775807")), INT64_MAX);
  for (const char* value : {"0", "-1", "1.5", "1.0", "1e3", "9223372036854775808", "1e20",
                            "100000000000000000000", "\"100\"", "{}"}) {
    ExpectRefused(value, read);
  }
}

TEST(JsonFields, NoBoundIsNamedThatNobodyMeets) {
  const auto refusal = [](const auto& read) -> std::string {
    try {
      read(Field("-7"));
    } catch (const ApiError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal([](const auto& object) { IntegerField(object, "x", 1, INT64_MAX); }),
            "x: must be a whole number of at least 1, not -7");
  EXPECT_EQ(refusal([](const auto& object) { IntegerField(object, "x", 1, 9); }),
            "x: must be a whole number from 1 to 9, not -7");
  EXPECT_EQ(refusal([](const auto& object) { NumberField(object, "x", 0, 1); }),
            "x: must be a number from 0 to 1, not -7");
}

TEST(JsonFields, Seeds) {
  const auto read = [](const text::JsonValue& object) { return SeedField(object, "x"); };
  EXPECT_EQ(read(Field("0")), 0U);
  EXPECT_EQ(read(Field("-1")), UINT64_MAX);
  EXPECT_EQ(read(Field("9223372036854775808")), uint64_t{1} << 63);
  EXPECT_EQ(read(Field("18446744073709551615")), UINT64_MAX);
  for (const char* value : {"18446744073709551616", "-9223372036854775809", "1.5", "\"42\""}) {
    ExpectRefused(value, read);
  }
}

TEST(JsonFields, WordsAndSwitches) {
  EXPECT_EQ(StringField(Field("\"a\""), "x"), "a");
  EXPECT_EQ(BooleanField(Field("false"), "x"), false);
  ExpectRefused("1", [](const text::JsonValue& object) { return StringField(object, "x"); });
  ExpectRefused("\"true\"",
                [](const text::JsonValue& object) { return BooleanField(object, "x"); });
}

}  // namespace
}  // namespace kimi_k3::server
