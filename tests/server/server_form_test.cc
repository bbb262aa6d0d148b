// Answers of a given form, as clients get them: JSON, schemas, calls of functions.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kimi_k3/utf8.h"
#include "server/http_client.h"
#include "server/running_server.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::ordered_json;

const Json kPerson = Json::parse(R"({"type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12},
                   "age": {"type": "integer", "minimum": 0, "maximum": 120},
                   "kind": {"enum": ["cat", "dog"]},
                   "friends": {"type": "array", "items": {"$ref": "#/$defs/friend"}, "maxItems": 2}},
    "required": ["name", "age", "kind", "friends"], "additionalProperties": false,
    "$defs": {"friend": {"type": "object", "properties": {"short": {"type": "string",
              "pattern": "^[A-Z][a-z]{0,5}$"}}, "required": ["short"],
              "additionalProperties": false}}})");

const Json kWeather = Json::parse(R"([{"type": "function", "function": {"name": "get_weather",
    "strict": true, "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "maxLength": 10},
                   "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "stop", "strict": true}}])");

Json Body(const char* effort, int seed, size_t max_tokens = 250) {
  return {{"messages", {{{"role", "user"}, {"content", "Hello."}}}},
          {"reasoning_effort", effort},
          {"temperature", 0.7},
          {"seed", seed},
          {"max_tokens", max_tokens}};
}

Json SchemaFormat(const Json& schema) {
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "x"}, {"strict", true}, {"schema", schema}}}};
}

Json ChoiceOf(const HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return Json::parse(response.body)["choices"][0];
}

class ServerForm : public testing::Test {
 protected:
  HttpResponse Chat(const Json& body) {
    return Post(server_.port(), "/v1/chat/completions", body.dump());
  }
  RunningServer server_{{.sequences = 1, .context = 1500}};
};

TEST_F(ServerForm, AnAnswerSatisfiesItsSchema) {
  int whole = 0;
  for (int seed = 0; seed < 4; ++seed) {
    Json body = Body(seed % 2 == 0 ? "none" : "max", seed);
    body["response_format"] = SchemaFormat(kPerson);
    const Json choice = ChoiceOf(Chat(body));
    const std::string text = choice["message"]["content"];
    if (choice["finish_reason"] == "length") continue;  // it thought too long
    ASSERT_EQ(choice["finish_reason"], "stop");
    ASSERT_TRUE(Json::accept(text)) << text;
    const Json value = Json::parse(text);
    ASSERT_EQ(value.size(), 4U) << text;
    EXPECT_LE(value["name"].get<std::string>().size(), 48U);
    EXPECT_LE(value["age"].get<int>(), 120);
    EXPECT_TRUE(value["kind"] == "cat" || value["kind"] == "dog");
    for (const Json& other : value["friends"]) EXPECT_EQ(other.size(), 1U);
    ++whole;
  }
  EXPECT_GE(whole, 2);
}

TEST_F(ServerForm, JsonObjectIsAnyObject) {
  Json body = Body("none", 3, 60);
  body["response_format"] = {{"type", "json_object"}};
  body["stream"] = true;
  const HttpResponse response = Chat(body);
  std::string content;
  std::string reason;
  for (const std::string& event : EventsOf(response.body)) {
    if (event == "[DONE]") continue;
    const Json choice = Json::parse(event)["choices"][0];
    content += choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
  }
  EXPECT_TRUE(content.starts_with("{")) << content;
  EXPECT_TRUE(reason == "length" || Json::accept(content)) << content;
}

TEST_F(ServerForm, WhatIsCutIsABeginningInWholeCharacters) {
  for (size_t most = 1; most < 12; most += 2) {
    Json body = Body("none", static_cast<int>(most), most);
    body["response_format"] = SchemaFormat({{"type", "array"}, {"minItems", 50}});
    const Json choice = ChoiceOf(Chat(body));
    EXPECT_EQ(choice["finish_reason"], "length");
    const std::string text = choice["message"]["content"];
    EXPECT_TRUE(text.starts_with("[")) << text;
    EXPECT_TRUE(IsValidUtf8(text));
  }
}

TEST_F(ServerForm, ProbabilitiesAreOfTheContent) {
  Json body = Body("none", 1);
  body["response_format"] = SchemaFormat({{"enum", {"yes", "no"}}});
  body["logprobs"] = true;
  const Json choice = ChoiceOf(Chat(body));
  std::string text;
  for (const Json& token : choice["logprobs"]["content"]) text += token["token"].get<std::string>();
  EXPECT_EQ(text, choice["message"]["content"].get<std::string>());
  EXPECT_TRUE(text == "\"yes\"" || text == "\"no\"");
}

TEST_F(ServerForm, ARequiredCallIsMadeAndFitsItsParameters) {
  int calls = 0;
  for (int seed = 0; seed < 2; ++seed) {
    Json body = Body("none", seed, 250);
    body["tools"] = kWeather;
    body["parallel_tool_calls"] = false;
    body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "get_weather"}}}};
    const Json choice = ChoiceOf(Chat(body));
    if (choice["finish_reason"] == "length") continue;  // it talked too long
    ASSERT_EQ(choice["finish_reason"], "tool_calls");
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
    const Json call = choice["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(call["name"], "get_weather");
    const Json arguments = Json::parse(call["arguments"].get<std::string>());
    EXPECT_TRUE(arguments["city"].is_string());
    EXPECT_GE(arguments["days"].get<int>(), 1);
    EXPECT_EQ(arguments.size(), 2U);
    ++calls;
  }
  EXPECT_GE(calls, 1);
}

TEST_F(ServerForm, WhatIsNotSupportedIsRefusedByItsPath) {
  const auto refusal = [&](const Json& schema) {
    Json body = Body("none", 0);
    body["response_format"] = SchemaFormat(schema);
    const HttpResponse response = Chat(body);
    EXPECT_EQ(response.status, 400);
    return Json::parse(response.body)["error"]["param"].get<std::string>();
  };
  const std::string schema = "response_format.json_schema.schema";
  EXPECT_EQ(refusal({{"properties", {{"a", {{"not", Json::object()}}}}}}),
            schema + ".properties.a.not");
  EXPECT_EQ(refusal({{"$ref", "#"}}), schema + ".$ref");
  EXPECT_EQ(refusal({{"type", "string"}, {"minLength", 1000000000}}), schema);
  EXPECT_EQ(refusal(false), schema);
  Json body = Body("none", 0);
  body["tools"] = kWeather;
  body["tools"][0]["function"]["parameters"]["properties"]["city"]["multipleOf"] = 1;
  const HttpResponse response = Chat(body);
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(Json::parse(response.body)["error"]["param"],
            "tools[0].function.parameters.properties.city.multipleOf");
  body["tools"] = kWeather;
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "none"}}}};
  EXPECT_EQ(Chat(body).status, 400);
  EXPECT_EQ(Get(server_.port(), "/health").status, 200);
}

TEST_F(ServerForm, HostileSchemasHarmNobody) {
  std::string deep = "true";
  for (int i = 0; i < 2000; ++i) deep = R"({"items":)" + deep + "}";
  const std::string head =
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "response_format": )"
      R"({"type": "json_schema", "json_schema": {"schema": )";
  for (const std::string& schema :
       {deep, std::string(R"({"type": "string", "pattern": ")") + std::string(3000, '(') + "\"}",
        std::string(R"({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})"),
        std::string(R"({"enum": [)") + std::string(100, '[') + std::string(100, ']') + "]}",
        std::string(R"({"type": "string", "pattern": "^(a{99}){99}(b{99}){99}$"})"),
        std::string(R"({"properties": {"a": {"$ref": "#/properties/a/properties/a"}}})")}) {
    const HttpResponse response =
        Post(server_.port(), "/v1/chat/completions", head + schema + "}}}");
    EXPECT_TRUE(response.status == 400 || response.status == 200) << response.status;
  }
  EXPECT_EQ(Get(server_.port(), "/health").status, 200);
}

}  // namespace
}  // namespace kimi_k3
