#include "grammar/turn_grammar.h"

#include <gmock/gmock.h>

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

using testing::HasSubstr;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "weather", "strict": true, "parameters":
    {"type": "object", "properties": {"city": {"type": "string"},
                                      "unit": {"enum": ["c", "f", null]},
                                      "days": {"type": "integer", "minimum": 1}},
     "required": ["city", "unit"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "free \"&\" easy"}}])";

// A turn as text: [name] stands for the tags; `<` opens, `>` closes, `|` ends a tag.
bool IsTurn(const ChatRequest& request, Channel start, std::string_view turn) {
  Matcher matcher(std::make_shared<const Grammar>(TurnGrammar(request, start)));
  Matcher::Point point = matcher.start();
  for (const char c : turn) {
    const Symbol symbol = c == '<'   ? kOpen
                          : c == '>' ? kClose
                          : c == '|' ? kSep
                                     : static_cast<Symbol>(static_cast<uint8_t>(c));
    point = matcher.Step(point, symbol);
  }
  return matcher.Complete(point) && matcher.IsLast(point);
}

ChatRequest WithTools(ToolChoice choice) {
  ChatRequest request;
  request.tools = kTools;
  request.tool_choice = choice;
  return request;
}

ChatRequest WithSchema(const char* schema) {
  ChatRequest request;
  request.response_format = ResponseFormat::kJsonSchema;
  request.json_schema = schema;
  return request;
}

TEST(TurnGrammar, SaysNothingWhereTheRequestDoesNot) {
  EXPECT_FALSE(LimitsTurn({}));
  EXPECT_TRUE(LimitsTurn(WithSchema("{}")));
  EXPECT_TRUE(LimitsTurn(WithTools(ToolChoice::kAuto)));
  EXPECT_TRUE(LimitsTurn(WithTools(ToolChoice::kRequired)));
  EXPECT_FALSE(LimitsTurn(WithTools(ToolChoice::kNone)));
  ChatRequest free;
  free.tools = R"([{"type": "function", "function": {"name": "f"}}])";
  EXPECT_FALSE(LimitsTurn(free));
}

TEST(TurnGrammar, JsonFollowsFreeReasoning) {
  const ChatRequest request = WithSchema(R"({"type": "integer"})");
  EXPECT_TRUE(IsTurn(request, Channel::kThink, "well, {>think|<response|12>"));
  EXPECT_TRUE(IsTurn(request, Channel::kResponse, "12>"));
  EXPECT_TRUE(IsTurn(request, Channel::kNone, "<response|12>"));
  EXPECT_FALSE(IsTurn(request, Channel::kThink, "12>"));
  EXPECT_FALSE(IsTurn(request, Channel::kResponse, "twelve>"));
  EXPECT_FALSE(IsTurn(request, Channel::kResponse, ">"));
  EXPECT_FALSE(IsTurn(request, Channel::kThink, "well>think|<tools|"));
  ChatRequest object;
  object.response_format = ResponseFormat::kJsonObject;
  EXPECT_TRUE(IsTurn(object, Channel::kResponse, "{\"a\":[]}>"));
  EXPECT_FALSE(IsTurn(object, Channel::kResponse, "[]>"));
}

constexpr const char* kCall =
    "<call tool=\"weather\" index=\"1\"|<argument key=\"city\" type=\"string\"|Bern "
    "\"x\"\n>argument|"
    "<argument key=\"unit\" type=\"null\"|null>argument|>call|";

TEST(TurnGrammar, ARequiredCallIsMade) {
  const ChatRequest request = WithTools(ToolChoice::kRequired);
  const std::string call = kCall;
  EXPECT_TRUE(
      IsTurn(request, Channel::kThink, "h>think|<response|let me>response|<tools|" + call + ">"));
  EXPECT_TRUE(IsTurn(request, Channel::kThink, "h>think|<tools|" + call + call + ">"));
  EXPECT_FALSE(IsTurn(request, Channel::kThink, "h>think|<response|no>response|>"));
  EXPECT_FALSE(IsTurn(request, Channel::kThink, "h>think|<response|no>"));
  EXPECT_FALSE(IsTurn(request, Channel::kResponse, ">response|<tools|>"));
}

TEST(TurnGrammar, StrictArgumentsSatisfyTheirSchema) {
  const ChatRequest request = WithTools(ToolChoice::kAuto);
  const auto is_call = [&](const std::string& arguments) {
    return IsTurn(request, Channel::kResponse,
                  ">response|<tools|<call tool=\"weather\" index=\"12\"|" + arguments + ">call|>");
  };
  const std::string city = "<argument key=\"city\" type=\"string\"|Bern>argument|";
  const std::string unit = "<argument key=\"unit\" type=\"string\"|c>argument|";
  EXPECT_TRUE(is_call(city + unit));
  EXPECT_TRUE(is_call(city + unit + "<argument key=\"days\" type=\"number\"|3>argument|"));
  EXPECT_FALSE(is_call(city + unit + "<argument key=\"days\" type=\"number\"|0>argument|"));
  EXPECT_FALSE(is_call(city + unit + "<argument key=\"days\" type=\"string\"|3>argument|"));
  EXPECT_FALSE(is_call(city));
  EXPECT_FALSE(is_call(unit + city));
  EXPECT_FALSE(is_call(city + "<argument key=\"unit\" type=\"string\"|k>argument|"));
  // The turn may do without a call, or say something first.
  EXPECT_TRUE(IsTurn(request, Channel::kResponse, "no call>response|>"));
  // A function that is not strict takes anything.
  const std::string free =
      ">response|<tools|<call tool=\"free &quot;&amp;&quot; easy\" index=\"1\"|";
  EXPECT_TRUE(IsTurn(request, Channel::kResponse, free + ">call|>"));
  EXPECT_TRUE(IsTurn(request, Channel::kResponse,
                     free + "<argument key=\"x\" type=\"object\"|{\"a\": 1}>argument|>call|>"));
  EXPECT_FALSE(IsTurn(request, Channel::kResponse,
                      free + "<argument key=\"x\" type=\"object\"|[]>argument|>call|>"));
  EXPECT_FALSE(
      IsTurn(request, Channel::kResponse, ">response|<tools|<call tool=\"x\" index=\"1\"|>call|>"));
}

TEST(TurnGrammar, ANamedFunctionIsTheOneThatIsCalled) {
  ChatRequest request = WithTools(ToolChoice::kRequired);
  request.tool_name = "free \"&\" easy";
  EXPECT_FALSE(IsTurn(request, Channel::kResponse, std::string(">response|<tools|") + kCall + ">"));
  EXPECT_TRUE(
      IsTurn(request, Channel::kResponse,
             ">response|<tools|<call tool=\"free &quot;&amp;&quot; easy\" index=\"1\"|>call|>"));
  request.tool_name = "none";
  EXPECT_THROW(TurnGrammar(request, Channel::kThink), Error);
}

TEST(TurnGrammar, WithToolsAndJsonTheTurnIsOneOrTheOther) {
  ChatRequest request = WithTools(ToolChoice::kAuto);
  request.response_format = ResponseFormat::kJsonObject;
  EXPECT_TRUE(IsTurn(request, Channel::kResponse, "{}>"));
  EXPECT_TRUE(IsTurn(request, Channel::kResponse, std::string(">response|<tools|") + kCall + ">"));
  EXPECT_FALSE(IsTurn(request, Channel::kResponse, ">response|>"));
}

TEST(TurnGrammar, RefusesParametersThatCannotBeStrict) {
  const auto refusal = [](const std::string& parameters) -> std::string {
    ChatRequest request;
    request.tools = R"([{"type": "function", "function": {"name": "f", "strict": true,
                         "parameters": )" +
                    parameters + "}}]";
    try {
      TurnGrammar(request, Channel::kThink);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {}})"), "");
  EXPECT_THAT(refusal(R"({"type": "object", "properties": {}, "additionalProperties": true})"),
              HasSubstr("tools[0].function.parameters.additionalProperties: must be false"));
  EXPECT_THAT(refusal(R"({"type": "object", "properties": {"a": {"not": {}}}})"),
              HasSubstr("tools[0].function.parameters.properties.a.not:"));
  EXPECT_THAT(refusal(R"({"type": "string"})"), HasSubstr("must be the schema of an object"));
}

}  // namespace
}  // namespace kimi_k3::grammar
