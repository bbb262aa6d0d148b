#include "grammar/schema_keywords.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

using testing::HasSubstr;

text::JsonValue Value(std::string_view json) { return *text::ParseJson(json).value; }

TEST(SchemaKeywords, TypesAreNamedOrFollowFromTheOthers) {
  EXPECT_EQ(TypesOf(Value(R"({"type": "integer"})"), ""), kIntegerType);
  EXPECT_EQ(TypesOf(Value(R"({"type": ["string", "null"]})"), ""), kStringType | kNullType);
  EXPECT_EQ(TypesOf(Value(R"({"properties": {}})"), ""), kObjectType);
  EXPECT_EQ(TypesOf(Value(R"({"maxItems": 1, "minimum": 3})"), ""), kArrayType | kNumberType);
  EXPECT_EQ(TypesOf(Value(R"({"title": "x"})"), ""), kAllTypes);
}

TEST(SchemaKeywords, ValuesAreWrittenCompactlyWithTheirNumbersAsTheyStand) {
  EXPECT_EQ(WriteValue(Value(R"({"a": [1.50, null, "x\n"], "b": {}})")),
            R"({"a":[1.50,null,"x\n"],"b":{}})");
  EXPECT_EQ(TypeOf(Value("2.0")), kIntegerType);
  EXPECT_EQ(TypeOf(Value("2.5")), kNumberType);
}

TEST(SchemaKeywords, FormatsTakeTheirOwnValuesAlone) {
  const struct {
    const char* format;
    const char* good;
    const char* bad;
  } cases[] = {{"date", "2024-12-31", "2024-02-30"},
               {"time", "23:59:59Z", "24:00:00Z"},
               {"date-time", "2024-06-01T08:00:00.5+02:00", "2024-06-01 08:00"},
               {"duration", "P1DT2H", "P"},
               {"uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"},
               {"email", "a.b@example.org", "a@b"},
               {"hostname", "a.example.org", "-a"},
               {"ipv4", "255.0.10.1", "256.0.0.1"},
               {"ipv6", "2001:db8:0:0:0:0:0:1", "2001"}};
  for (const auto& [format, good, bad] : cases) {
    const auto form = FormOf(fmt::format(R"({{"type": "string", "format": "{}"}})", format));
    EXPECT_TRUE(Matches(form, fmt::format("\"{}\"", good))) << format;
    EXPECT_FALSE(Matches(form, fmt::format("\"{}\"", bad))) << format;
  }
}

TEST(SchemaKeywords, RefusesWhatIsNotSupportedByNameAndPlace) {
  const struct {
    const char* schema;
    const char* message;
  } cases[] = {
      {R"({"properties": {"a": {"not": {}}}})", "schema.properties.a.not: this keyword"},
      {R"({"items": {"if": true}})", "schema.items.if:"},
      {R"({"type": "integer", "multipleOf": 3})", "schema.multipleOf:"},
      {R"({"type": "object", "patternProperties": {}})", "schema.patternProperties:"},
      {R"({"anyOf": [true], "properties": {}})",
       "schema.properties: is not supported beside anyOf"},
      {R"({"anyOf": [{"const": 1, "minimum": 0}]})", "schema.anyOf[0].minimum:"},
      {R"({"allOf": [true, true]})", "schema.allOf:"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "schema.oneOf:"},
      {R"({"type": "text"})", "schema.type: must be"},
      {R"({"type": []})", "schema: nothing"},
      {R"({"type": "string", "minLength": -1})", "schema.minLength: must be a whole number"},
      {R"({"type": "string", "minLength": 1.5})", "schema.minLength:"},
      {R"({"type": "string", "maxLength": "1"})", "schema.maxLength:"},
      {R"j({"type": "string", "pattern": "(?=a)"})j", "schema.pattern: looking around"},
      {R"({"type": "string", "pattern": "a", "maxLength": 1})", "schema.maxLength:"},
      {R"({"type": "string", "format": "iri"})", "schema.format: the format \"iri\""},
      {R"({"type": "number", "minimum": "1"})", "schema.minimum: must be a number"},
      {R"({"type": "number", "minimum": 1e99})", "schema.minimum: has more digits"},
      {R"({"type": "number", "minimum": 1, "exclusiveMinimum": 1})", "schema.exclusiveMinimum:"},
      {R"({"type": "array", "uniqueItems": true})", "schema.uniqueItems:"},
      {R"({"type": "array", "items": [true]})", "schema.items: must be a schema"},
      {R"({"required": ["a"], "properties": {}})", "schema.required: names \"a\""},
      {R"({"required": "a"})", "schema.required: must be a list"},
      {R"({"properties": []})", "schema.properties: must be an object"},
      {R"({"additionalProperties": 1})", "schema.additionalProperties:"},
      {R"({"enum": []})", "schema.enum: must be a list"},
      {R"({"$ref": "http://example.org/a"})", "schema.$ref:"},
      {R"({"$ref": "#name"})", "schema.$ref:"},
      {R"({"$ref": "#/$defs/none"})", "schema.$ref: there is no #/$defs/none"},
      {R"({"$ref": "#"})", "schema.$ref: leads back"},
      {R"({"$ref": "#/$defs/a", "minimum": 1})", "schema.minimum: is not supported beside $ref"},
      {R"(1)", "schema: must be a schema"},
      {R"({"minItems": 3, "maxItems": 2})", "schema: nothing"},
      {R"(false)", "schema: nothing"}};
  for (const auto& [schema, message] : cases) {
    EXPECT_THAT(RefusalOf(schema), HasSubstr(message)) << schema;
  }
}

TEST(SchemaKeywords, OneOfIsTakenWhereTheAlternativesDiffer) {
  EXPECT_EQ(RefusalOf(R"({"oneOf": [{"type": "string"}, {"type": "null"}]})"), "");
  EXPECT_EQ(RefusalOf(R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]}]})"),
            "");
  EXPECT_NE(RefusalOf(R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"type": "object", "properties": {"kind": {"enum": ["a", "c"]}}, "required": ["kind"]}]})"),
            "");
}

}  // namespace
}  // namespace kimi_k3::grammar
