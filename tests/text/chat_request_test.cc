// OpenAI chat requests: fields, mappings and refusals.
#include <gmock/gmock.h>

#include "kimi_k3/chat.h"
#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// A request with one user message and further fields.
std::string With(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

ChatRequest Parse(const std::string& fields) { return ParseChatRequest(With(fields)); }

ChatMessage ParseMessage(const std::string& message) {
  const ChatRequest request = ParseChatRequest(R"({"messages": [)" + message + "]}");
  return request.messages.at(0);
}

std::string Refusal(const std::string& json) {
  const Error error = ErrorOf([&] { ParseChatRequest(json); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  return error.what();
}

std::string MessageRefusal(const std::string& message) {
  return Refusal(R"({"messages": [{"role": "user", "content": "a"}, )" + message + "]}");
}

TEST(ChatRequest, TheDefaultsAreTheVendors) {
  const ChatRequest request = Parse("");
  EXPECT_TRUE(request.thinking);
  EXPECT_EQ(request.effort, ThinkingEffort::kMax);
  EXPECT_TRUE(request.add_generation_prompt);
  EXPECT_EQ(request.tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(request.response_format, ResponseFormat::kText);
  EXPECT_EQ(request.messages.at(0).content.at(0).text, "hi");
}

TEST(ChatRequest, OtherFieldsAreLeftAlone) {
  EXPECT_EQ(Parse(R"("model": "k3", "temperature": 1, "stream": true, "logit_bias": {}, "x": [[]])")
                .messages.size(),
            1U);
}

TEST(ChatRequest, EffortAndThinkingAreMapped) {
  const auto effort = [](const std::string& fields) { return Parse(fields).effort; };
  EXPECT_EQ(effort(R"("reasoning_effort": "low")"), ThinkingEffort::kLow);
  EXPECT_EQ(effort(R"("reasoning_effort": "medium")"), ThinkingEffort::kHigh);
  EXPECT_EQ(effort(R"("reasoning_effort": "high")"), ThinkingEffort::kHigh);
  EXPECT_EQ(effort(R"("reasoning_effort": "xhigh")"), ThinkingEffort::kMax);
  EXPECT_EQ(effort(R"("reasoning_effort": "max")"), ThinkingEffort::kMax);
  EXPECT_EQ(effort(R"("reasoning_effort": null)"), ThinkingEffort::kMax);
  EXPECT_FALSE(Parse(R"("reasoning_effort": "none")").thinking);
  EXPECT_EQ(effort(R"("reasoning_effort": "low", "thinking": {"effort": "high"})"),
            ThinkingEffort::kHigh);
  EXPECT_TRUE(
      Parse(R"("reasoning_effort": "none", "thinking": {"type": "enabled", "effort": "low"})")
          .thinking);
  EXPECT_FALSE(Parse(R"("thinking": {"type": "disabled"})").thinking);
  EXPECT_THAT(Refusal(With(R"("reasoning_effort": "huge")")),
              HasSubstr("reasoning_effort: must be none, low, medium, high, xhigh, max"));
  EXPECT_THAT(Refusal(With(R"("reasoning_effort": 3)")), HasSubstr("reasoning_effort"));
  EXPECT_THAT(Refusal(With(R"("thinking": {"type": "auto"})")), HasSubstr("thinking.type"));
  EXPECT_THAT(Refusal(With(R"("thinking": true)")), HasSubstr("thinking"));
}

TEST(ChatRequest, TemplateArgumentsWin) {
  const ChatRequest request = Parse(
      R"("reasoning_effort": "none", "tool_choice": "none", "chat_template_kwargs":
         {"thinking": true, "thinking_effort": "low", "add_generation_prompt": false,
          "tools": [{"a": 1}], "tool_choice": "required", "image_prompts": ["x"],
          "response_format": {"type": "json_object"}})");
  EXPECT_TRUE(request.thinking);
  EXPECT_EQ(request.effort, ThinkingEffort::kLow);
  EXPECT_FALSE(request.add_generation_prompt);
  EXPECT_EQ(request.tools, R"([{"a": 1}])");
  EXPECT_EQ(request.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(request.image_prompts, std::vector<std::string>{"x"});
  EXPECT_EQ(request.response_format, ResponseFormat::kJsonObject);
  EXPECT_EQ(Parse(R"("chat_template_kwargs": {"thinking_effort": null})").effort, std::nullopt);
  for (const char* arguments : {R"({"thinking_effort": "medium"})", R"({"thinking": 1})", R"([])",
                                R"({"add_generation_prompt": "no"})", R"({"image_prompts": "x"})",
                                R"({"image_prompts": [1]})"}) {
    EXPECT_THAT(Refusal(With(std::string(R"("chat_template_kwargs": )") + arguments)),
                HasSubstr("chat_template_kwargs"));
  }
}

TEST(ChatRequest, ToolChoiceKnowsThreeWordsAndTheNamesOfFunctions) {
  EXPECT_EQ(Parse(R"("tool_choice": "required")").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(Parse(R"("tool_choice": "none")").tool_choice, ToolChoice::kNone);
  EXPECT_EQ(Parse(R"("tool_choice": null)").tool_choice, ToolChoice::kAuto);
  EXPECT_THAT(Refusal(With(R"("tool_choice": "any")")), HasSubstr("tool_choice"));
  const ChatRequest named =
      Parse(R"("tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(named.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(named.tool_name, "f");
  EXPECT_THAT(Refusal(With(R"("tool_choice": {"type": "function", "name": "f"})")),
              HasSubstr("tool_choice"));
}

TEST(ChatRequest, ResponseFormatFindsTheSchema) {
  const auto schema = [](const std::string& format) {
    return Parse(R"("response_format": {"type": "json_schema", "json_schema": )" + format + "}")
        .json_schema;
  };
  EXPECT_EQ(schema(R"({"name": "x", "schema": {"a": 1}})"), R"({"a": 1})");
  EXPECT_EQ(schema(R"({"json_schema": {"b": 1}})"), R"({"b": 1})");
  EXPECT_EQ(schema(R"({"type": "object"})"), R"({"type": "object"})");
  EXPECT_THAT(Refusal(With(R"("response_format": {"type": "json_schema"})")),
              HasSubstr("response_format.json_schema"));
  EXPECT_THAT(Refusal(With(R"("response_format": {"type": "xml"})")), HasSubstr("xml"));
  EXPECT_THAT(Refusal(With(R"("response_format": "json_object")")), HasSubstr("response_format"));
}

TEST(ChatRequest, MessagesAreRead) {
  const ChatMessage message = ParseMessage(
      R"({"role": "assistant", "content": null, "reasoning_content": "r", "partial": true,
          "tool_calls": [{"id": 7, "type": "function", "function": {"name": "f", "arguments":
          {"n": 12345678901234567890123, "f": 1e2}}}]})");
  EXPECT_EQ(message.role, ChatRole::kAssistant);
  EXPECT_TRUE(message.content.empty());
  EXPECT_EQ(message.reasoning, "r");
  EXPECT_TRUE(message.partial);
  EXPECT_EQ(message.tool_calls.at(0).id, "7");
  EXPECT_EQ(message.tool_calls.at(0).arguments, R"({"n": 12345678901234567890123, "f": 100.0})");
  EXPECT_EQ(ParseMessage(R"({"role": "assistant", "reasoning_content": " ", "reasoning": "x"})")
                .reasoning,
            "x");
  EXPECT_EQ(ParseMessage(R"({"role": "developer", "content": "x"})").role, ChatRole::kSystem);
  const ChatMessage result =
      ParseMessage(R"({"role": "tool", "id": "c", "tool": "f", "name": "g", "content": "x"})");
  EXPECT_EQ(result.tool_call_id, "c");
  EXPECT_EQ(result.tool, "f");
  EXPECT_EQ(result.name, "g");
}

TEST(ChatRequest, PartsAreTextOrImages) {
  const ChatMessage message = ParseMessage(
      R"({"role": "user", "content": [{"type": "text", "text": "a"}, "b", {"type": "image_url",
          "image_url": {"url": "x"}}, {"type": "image"}, {"text": "c"}, {"type": "video"}]})");
  ASSERT_EQ(message.content.size(), 6U);
  EXPECT_EQ(message.content[0].text, "a");
  EXPECT_EQ(message.content[1].text, "b");
  EXPECT_TRUE(message.content[2].is_image);
  EXPECT_TRUE(message.content[3].is_image);
  EXPECT_EQ(message.content[4].text, "c");
  EXPECT_EQ(message.content[5].text, "");
}

TEST(ChatRequest, WrongTypesAreRefusedByName) {
  EXPECT_THAT(Refusal("[]"), HasSubstr("the request"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("messages: is missing"));
  EXPECT_THAT(Refusal(R"({"messages": "hi"})"), HasSubstr("messages: must be an array"));
  EXPECT_THAT(MessageRefusal("3"), HasSubstr("messages[1]"));
  EXPECT_THAT(MessageRefusal(R"({"content": "x"})"), HasSubstr("messages[1].role"));
  EXPECT_THAT(MessageRefusal(R"({"role": "robot"})"), HasSubstr("robot"));
  EXPECT_THAT(MessageRefusal(R"({"role": 1})"), HasSubstr("messages[1].role"));
  EXPECT_THAT(MessageRefusal(R"({"role": "user", "content": 1})"),
              HasSubstr("messages[1].content"));
  EXPECT_THAT(MessageRefusal(R"({"role": "user", "content": [1]})"),
              HasSubstr("messages[1].content[0]"));
  EXPECT_THAT(MessageRefusal(R"({"role": "user", "name": []})"), HasSubstr("messages[1].name"));
  EXPECT_THAT(MessageRefusal(R"({"role": "assistant", "tool_calls": {}})"),
              HasSubstr("messages[1].tool_calls"));
  EXPECT_THAT(MessageRefusal(R"({"role": "assistant", "tool_calls": [{}]})"),
              HasSubstr("messages[1].tool_calls[0].function"));
  EXPECT_THAT(MessageRefusal(R"({"role": "assistant", "tool_calls": [{"function": {}}]})"),
              HasSubstr("messages[1].tool_calls[0].function.name"));
  EXPECT_THAT(MessageRefusal(R"({"role": "assistant", "partial": "yes"})"),
              HasSubstr("messages[1].partial"));
}

TEST(ChatRequest, AQuestionWithoutContentIsRefused) {
  EXPECT_EQ(MessageRefusal(R"({"role": "user", "contents": "b"})"),
            "messages[1].content: is missing");
  EXPECT_EQ(MessageRefusal(R"({"role": "user", "content": null})"),
            "messages[1].content: is missing");
}

TEST(ChatRequest, BrokenJsonIsRefusedWithItsPlace) {
  const std::string message = Refusal("{\n\"messages\": [{\"content\": \"\\s\"}]}");
  EXPECT_THAT(message, HasSubstr("line 2"));
  EXPECT_THAT(message, HasSubstr("\\s"));
  EXPECT_THAT(Refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("{\"messages\": [\"\xC3(\"]}"), HasSubstr("UTF-8"));
}

TEST(ChatRequest, DeepNestingIsRefusedWhereverItStands) {
  const std::string deep = Repeat("[", 100'000) + Repeat("]", 100'000);
  for (const std::string field : {"ignored", "tools", "response_format", "chat_template_kwargs"}) {
    EXPECT_THAT(Refusal(With("\"" + field + "\": " + deep)), HasSubstr("nested deeper"));
  }
  const std::string fine = Repeat("[", 100) + Repeat("]", 100);
  EXPECT_EQ(Parse("\"tools\": [{\"parameters\": " + fine + "}]").tools.size(), 218U);
}

TEST(ChatRequest, LoneSurrogatesBecomeReplacementCharacters) {
  EXPECT_EQ(ParseMessage(R"({"role": "user", "content": "lone \ud83d x \ud83d\ude80 \u0000"})")
                .content.at(0)
                .text,
            std::string("lone \uFFFD x 🚀 \0", 17));
}

}  // namespace
}  // namespace kimi_k3
