#include "grammar/schema_rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Whether the value satisfies the schema, told from the schema alone and by other means than the
// grammar; for the keywords of kSchemas below.
bool Satisfies(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const auto pointer = schema["$ref"].get<std::string>().substr(1);
    return Satisfies(value, root[Json::json_pointer(pointer)], root);
  }
  const auto is_type = [&](const std::string& type) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == (value.is_object()    ? "object"
                    : value.is_array()   ? "array"
                    : value.is_string()  ? "string"
                    : value.is_boolean() ? "boolean"
                    : value.is_null()    ? "null"
                                         : "number");
  };
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    bool found = false;
    for (const Json& type : types) found |= is_type(type);
    if (!found) return false;
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return false;
  }
  if (schema.contains("anyOf") && std::ranges::none_of(schema["anyOf"], [&](const Json& part) {
        return Satisfies(value, part, root);
      })) {
    return false;
  }
  if (value.is_object()) {
    const Json properties = schema.value("properties", Json::object());
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    for (const auto& [key, member] : value.items()) {
      const Json part = properties.contains(key) ? properties[key]
                                                 : schema.value("additionalProperties", Json(true));
      if (!Satisfies(member, part, root)) return false;
    }
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (value.size() > schema.value("maxItems", size_t{1000000})) return false;
    const Json prefix = schema.value("prefixItems", Json::array());
    for (size_t i = 0; i < value.size(); ++i) {
      const Json part = i < prefix.size() ? prefix[i] : schema.value("items", Json(true));
      if (!Satisfies(value[i], part, root)) return false;
    }
  }
  if (value.is_string()) {
    size_t characters = 0;
    for (const char c : value.get<std::string>()) characters += (c & 0xc0) != 0x80 ? 1 : 0;
    if (characters < schema.value("minLength", size_t{0})) return false;
    if (characters > schema.value("maxLength", size_t{1000000})) return false;
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return false;
    if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>()) {
      return false;
    }
  }
  return true;
}

const char* const kSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 2, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150}},
        "required": ["name", "age"], "additionalProperties": false})",
    R"({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"},
        "c": {"enum": ["x", 1, 1.5, null, [1, 2], {"k": "v"}]}}, "required": ["b"],
        "additionalProperties": {"type": "number", "minimum": -2.5}})",
    R"({"type": ["string", "integer"]})",
    R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"const": 7}], "minItems": 1,
        "items": {"type": "boolean"}})",
    R"({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "object",
        "properties": {"kind": {"const": "a"}, "n": {"type": "number"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "ab"}}, "required": ["kind", "more"],
        "additionalProperties": true}]})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "required": ["value", "next"], "additionalProperties": false}}, "$ref": "#/$defs/node"})",
    R"({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["children"], "additionalProperties": false})",
    R"({"type": "object", "properties": {"a\"\n": {"const": "\u00e9\\"}, "": true}})",
    R"({"type": "object", "additionalProperties": {"type": "array", "maxItems": 0}})"};

TEST(SchemaRules, RandomTextsSatisfyTheSchema) {
  std::mt19937 random(5);
  for (const char* schema : kSchemas) {
    const Json parsed = Json::parse(schema);
    Matcher matcher(FormOf(schema));
    for (int i = 0; i < 60; ++i) {
      const std::string text = RandomText(matcher, random);
      ASSERT_TRUE(Json::accept(text)) << schema << ": " << text;
      EXPECT_TRUE(Satisfies(Json::parse(text), parsed, parsed)) << schema << ": " << text;
    }
  }
}

TEST(SchemaRules, WhatOneByteMakesInvalidIsNotTaken) {
  std::mt19937 random(6);
  for (const char* schema : kSchemas) {
    const Json parsed = Json::parse(schema);
    const auto form = FormOf(schema);
    Matcher matcher(form);
    for (int i = 0; i < 200; ++i) {
      std::string text = RandomText(matcher, random, 30);
      text[random() % text.size()] = "\"{}[],:01a-.n"[random() % 13];
      const bool valid = Json::accept(text) && Satisfies(Json::parse(text), parsed, parsed);
      EXPECT_TRUE(valid || !Matches(form, text)) << schema << ": " << text;
    }
  }
}

TEST(SchemaRules, ObjectsHaveTheirPropertiesInTheOrderOfTheSchema) {
  const auto form = FormOf(R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"},
                                              "c": {"type": "integer"}}, "required": ["b"]})");
  for (const char* text :
       {R"({"b":1})", R"({"a": 1, "b": 2})", R"({"b":1,"c":2})", R"({"a":1,"b":2,"c":3})"}) {
    EXPECT_TRUE(Matches(form, text)) << text;
  }
  for (const char* text : {"{}", R"({"a":1})", R"({"b":1,"a":2})", R"({"b":1,"b":2})",
                           R"({"b":1,"d":2})", R"({"b":1,})", R"({"a":1,"c":2})"}) {
    EXPECT_FALSE(Matches(form, text)) << text;
  }
}

TEST(SchemaRules, FollowsReferencesThroughTheSchema) {
  const auto form = FormOf(R"({"definitions": {"a/b~": {"$ref": "#/definitions/list/anyOf/1"},
      "list": {"anyOf": [true, {"const": "deep"}]}}, "properties": {"x": {"$ref":
      "#/definitions/a~1b~0"}, "y": {"$ref": "#/definitions/a%7E1b~0"}}})");
  EXPECT_TRUE(Matches(form, R"({"x":"deep","y":"deep"})"));
  EXPECT_FALSE(Matches(form, R"({"x":"shallow"})"));
}

TEST(SchemaRules, SchemasWithoutEndAreRefused) {
  EXPECT_THAT(RefusalOf(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("nothing that ends"));
  EXPECT_THAT(RefusalOf(R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                            "$ref": "#/$defs/a"})"),
              HasSubstr("leads back"));
  EXPECT_THAT(RefusalOf(R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}},
                            "$ref": "#/$defs/a"})"),
              HasSubstr("leads back"));
  // Optional, it is left out.
  const auto form = FormOf(R"({"properties": {"a": false, "b": {"$ref": "#"}}})");
  EXPECT_TRUE(Matches(form, R"({"b":{"b":{}}})"));
  EXPECT_FALSE(Matches(form, R"({"a":1})"));
}

TEST(SchemaRules, HugeSchemasAreTakenOrRefusedQuickly) {
  EXPECT_THAT(RefusalOf(R"({"type": "string", "minLength": 99999999999})"), HasSubstr("too large"));
  EXPECT_THAT(RefusalOf(R"({"items": true, "minItems": 1000000})"), HasSubstr("too large"));
  Json many = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 1001; ++i) many["properties"][std::to_string(i)] = true;
  EXPECT_THAT(RefusalOf(many.dump()), HasSubstr("more than 1000 properties"));
  many["properties"].erase("17");
  EXPECT_TRUE(Matches(FormOf(many.dump()), R"({"0":1,"999":2,"1000":[]})"));
  Json words = {{"enum", Json::array()}};
  for (int i = 0; i < 5000; ++i) words["enum"].push_back("word " + std::to_string(i));
  EXPECT_TRUE(Matches(FormOf(words.dump()), "\"word 4999\""));
  EXPECT_FALSE(Matches(FormOf(words.dump()), "\"word 5000\""));
  // As deep as JSON is read.
  std::string deep;
  for (int i = 0; i < 120; ++i) deep += R"({"items":)";
  EXPECT_EQ(RefusalOf(deep + "true" + std::string(120, '}')), "");
  // Alternatives that multiply.
  std::string layers = R"({"$ref": "#/$defs/l0", "$defs": {)";
  for (int i = 0; i < 60; ++i) {
    layers += fmt::format(
        R"("l{}": {{"anyOf": [{{"$ref": "#/$defs/l{}"}}, {{"$ref": "#/$defs/l{}"}}]}},)", i, i + 1,
        i + 1);
  }
  EXPECT_TRUE(Matches(FormOf(layers + R"("l60": {"type": "null"}}})"), "null"));
}

TEST(SchemaRules, StringsOfToolsStandWithoutQuotes) {
  GrammarBuilder builder;
  JsonForms forms(builder);
  const text::JsonValue schema =
      *text::ParseJson(R"({"anyOf": [{"enum": ["a\"b", 5]}, {"type": "string", "maxLength": 1}]})")
           .value;
  SchemaRules rules(builder, forms, schema, "schema");
  const Rule rule = rules.Whole(kStringType, Quoting::kRaw);
  rules.Complete();
  const auto form = std::make_shared<const Grammar>(builder.Finish(rule));
  EXPECT_TRUE(Matches(form, "a\"b"));
  EXPECT_TRUE(Matches(form, "\n"));
  EXPECT_TRUE(Matches(form, ""));
  EXPECT_FALSE(Matches(form, "5x"));
}

}  // namespace
}  // namespace kimi_k3::grammar
