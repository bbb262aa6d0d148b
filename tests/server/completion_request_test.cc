// Requests for text, as clients send them and as they should not.
#include "server/completion_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

ServerOptions Options() {
  ServerOptions options;
  options.model_name = "K3";
  return options;
}

// A chat request with further fields.
std::string Chat(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

ChatCompletionRequest Parsed(const std::string& fields) {
  return ParseChatCompletion(Chat(fields), Options());
}

// The field that a request is refused for, and that it is with 400.
std::string RefusedFor(const std::string& body, bool chat = true) {
  try {
    if (chat) {
      ParseChatCompletion(body, Options());
    } else {
      ParseTextCompletion(body, Options());
    }
    ADD_FAILURE() << "taken: " << body.substr(0, 200);
    return "";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400) << body.substr(0, 200);
    return error.param();
  }
}

TEST(CompletionRequest, DefaultsAreTheVendors) {
  const ChatCompletionRequest request = Parsed("");
  EXPECT_EQ(request.options.sampling.temperature, 1.0F);
  EXPECT_EQ(request.options.sampling.top_p, 0.95F);
  EXPECT_EQ(request.options.sampling.top_k, 0U);
  EXPECT_EQ(request.options.max_tokens, SIZE_MAX);
  EXPECT_FALSE(request.options.stream);
  EXPECT_FALSE(request.options.likely_tokens);
  EXPECT_TRUE(request.chat.thinking);
  EXPECT_FALSE(request.tools_allowed);
  // Without a seed no two texts are meant to be the same.
  EXPECT_NE(request.options.sampling.seed, Parsed("").options.sampling.seed);
}

TEST(CompletionRequest, ReadsEveryField) {
  const ChatCompletionRequest request = Parsed(
      R"("model": "K3", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": 7,
         "stop": ["a", "b"], "max_tokens": 9, "max_completion_tokens": 5, "n": 1, "stream": true,
         "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 3,
         "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "user": "someone",
         "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required",
         "parallel_tool_calls": false, "reasoning_effort": "low", "metadata": {"a": [1]},
         "response_format": {"type": "text"}, "an_unknown_field": null)");
  const CompletionOptions& options = request.options;
  EXPECT_EQ(options.sampling.temperature, 0.5F);
  EXPECT_EQ(options.sampling.top_p, 0.9F);
  EXPECT_EQ(options.sampling.top_k, 40U);
  EXPECT_EQ(options.sampling.min_p, 0.1F);
  EXPECT_EQ(options.sampling.seed, 7U);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options.max_tokens, 5U);
  EXPECT_TRUE(options.stream);
  EXPECT_TRUE(options.include_usage);
  EXPECT_EQ(options.likely_tokens, 3U);
  EXPECT_TRUE(request.tools_allowed);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(request.chat.effort, ThinkingEffort::kLow);
  EXPECT_EQ(request.chat.tool_choice, ToolChoice::kRequired);
}

TEST(CompletionRequest, ThePenaltyOfRepetitionsGoesByTwoNames) {
  const SamplingOptions none = Parsed("").options.sampling;
  EXPECT_EQ(none.repeat_penalty, 1.0F);
  const SamplingOptions all = Parsed(R"("repetition_penalty": 1.25)").options.sampling;
  EXPECT_EQ(all.repeat_penalty, 1.25F);
  EXPECT_EQ(all.repeat_last, 0U);
  const SamplingOptions latest = Parsed(R"("repeat_penalty": 0.5)").options.sampling;
  EXPECT_EQ(latest.repeat_penalty, 0.5F);
  EXPECT_EQ(latest.repeat_last, SamplingOptions().repeat_last);
  for (const char* name : {"repetition_penalty", "repeat_penalty"}) {
    for (const char* value : {"0", "-1", "1e-60", "1e60", "\"1.1\"", "[1.1]"}) {
      EXPECT_EQ(RefusedFor(Chat(fmt::format(R"("{}": {})", name, value))), name) << value;
    }
  }
  EXPECT_EQ(RefusedFor(Chat(R"("repetition_penalty": 1, "repeat_penalty": 1)")), "repeat_penalty");
  EXPECT_EQ(RefusedFor(R"({"prompt": "a", "repetition_penalty": 0})", false), "repetition_penalty");
}

TEST(CompletionRequest, RefusesValuesOutOfRangeOrOfAnotherType) {
  EXPECT_EQ(RefusedFor(Chat(R"("temperature": -1)")), "temperature");
  EXPECT_EQ(RefusedFor(Chat(R"("temperature": "0.5")")), "temperature");
  EXPECT_EQ(RefusedFor(Chat(R"("temperature": 1e40)")), "temperature");
  EXPECT_EQ(RefusedFor(Chat(R"("top_p": 1.5)")), "top_p");
  EXPECT_EQ(RefusedFor(Chat(R"("top_p": -0.1)")), "top_p");
  EXPECT_EQ(RefusedFor(Chat(R"("top_k": -1)")), "top_k");
  EXPECT_EQ(RefusedFor(Chat(R"("min_p": 2)")), "min_p");
  EXPECT_EQ(RefusedFor(Chat(R"("seed": "42")")), "seed");
  EXPECT_EQ(RefusedFor(Chat(R"("stop": "")")), "stop");
  EXPECT_EQ(RefusedFor(Chat(R"("stop": [1])")), "stop");
  EXPECT_EQ(RefusedFor(Chat(R"("stop": {})")), "stop");
  for (const char* most : {"0", "-1", "1.5", "\"100\"", "1e20", "9223372036854775808", "{}"}) {
    EXPECT_EQ(RefusedFor(Chat(R"("max_tokens": )" + std::string(most))), "max_tokens");
  }
  EXPECT_EQ(Parsed(R"("max_tokens": 9223372036854775807)").options.max_tokens, size_t{INT64_MAX});
  EXPECT_EQ(Parsed(R"("max_tokens": null)").options.max_tokens, SIZE_MAX);
  EXPECT_EQ(RefusedFor(Chat(R"("stream": "yes")")), "stream");
  EXPECT_EQ(RefusedFor(Chat(R"("stream_options": {"include_usage": true})")), "stream_options");
  EXPECT_EQ(RefusedFor(Chat(R"("top_logprobs": 2)")), "top_logprobs");
  EXPECT_EQ(RefusedFor(Chat(R"("logprobs": true, "top_logprobs": 21)")), "top_logprobs");
}

TEST(CompletionRequest, RefusesWhatIsNotOffered) {
  EXPECT_EQ(RefusedFor(Chat(R"("n": 2)")), "n");
  EXPECT_EQ(RefusedFor(Chat(R"("n": 0)")), "n");
  EXPECT_EQ(RefusedFor(Chat(R"("presence_penalty": 0.5)")), "presence_penalty");
  EXPECT_EQ(RefusedFor(Chat(R"("logit_bias": {"50": 1})")), "logit_bias");
  EXPECT_EQ(RefusedFor(Chat(R"("response_format": {"type": "xml"})")), "response_format.type");
  EXPECT_EQ(RefusedFor(Chat(R"("tool_choice": "required")")), "tool_choice");
  EXPECT_EQ(RefusedFor(Chat(R"("tool_choice": {"type": "function", "function": {"name": "f"}})")),
            "tool_choice");
  EXPECT_EQ(RefusedFor(Chat(R"("chat_template_kwargs": {"image_prompts": ["<|open|>"]})")),
            "chat_template_kwargs.image_prompts");
  EXPECT_EQ(RefusedFor(R"({"messages": [{"role": "user", "content":
              [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]})"),
            "messages[0].content");
}

TEST(CompletionRequest, RefusesMessagesThatAreNone) {
  EXPECT_EQ(RefusedFor("{}"), "messages");
  EXPECT_EQ(RefusedFor(R"({"messages": []})"), "messages");
  EXPECT_EQ(RefusedFor(R"({"messages": "hi"})"), "messages");
  EXPECT_EQ(RefusedFor(R"({"messages": [{"role": "king", "content": "hi"}]})"), "messages[0].role");
}

TEST(CompletionRequest, JsonMistakesAreToldWithTheirPlace) {
  for (const char* body : {"", "[]", "{", "{\"a\": 1,}", "{'a': 1}", "{\"a\": \"\\s\"}", "nul",
                           "{\"a\": \"\xc3\x28\"}", "\xef\xbb\xbf{}", "{} {}"}) {
    EXPECT_EQ(RefusedFor(body), "") << body;
  }
  try {
    ParseChatCompletion("{\n  \"a\": \"\\s\"}", Options());
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

TEST(CompletionRequest, DeepNestingIsRefusedWhereverItIs) {
  for (const size_t depth : {200, 10000, 400000}) {
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    objects += "1" + std::string(depth, '}');
    for (const std::string& value : {deep, objects}) {
      RefusedFor(Chat("\"unknown\": " + value));
      RefusedFor(Chat(R"("tools": [{"function": {"parameters": )" + value + "}}]"));
      RefusedFor(R"({"messages": [{"role": "user", "content": )" + value + "}]}");
    }
  }
}

TEST(CompletionRequest, AnotherModelIsNotFound) {
  for (const char* name : {"gpt-4o", "../../etc/passwd", "k3"}) {
    try {
      Parsed(std::string(R"("model": ")") + name + '"');
      FAIL() << name;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status(), 404);
      EXPECT_EQ(error.code(), "model_not_found");
    }
  }
}

TEST(CompletionRequest, TextRequests) {
  const auto parsed = [](const std::string& body) { return ParseTextCompletion(body, Options()); };
  EXPECT_EQ(parsed(R"({"prompt": "It is"})").prompt, "It is");
  EXPECT_EQ(parsed(R"({"prompt": ["It is"]})").prompt, "It is");
  EXPECT_EQ(parsed(R"({"prompt": [1, 2, 3]})").prompt_ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(parsed(R"({"prompt": [[1, 2]]})").prompt_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(parsed(R"({"prompt": "a", "logprobs": 5})").options.likely_tokens, 5U);
  EXPECT_TRUE(parsed(R"({"prompt": "a", "ignore_eos": true})").ignore_eos);
  for (const char* body :
       {R"({})", R"({"prompt": ""})", R"({"prompt": []})", R"({"prompt": [[]]})",
        R"({"prompt": ["a", "b"]})", R"({"prompt": [1, "a"]})", R"({"prompt": [-1]})",
        R"({"prompt": [1.5]})", R"({"prompt": [99999999999]})", R"({"prompt": 1})"}) {
    EXPECT_EQ(RefusedFor(body, false), "prompt") << body;
  }
  EXPECT_EQ(RefusedFor(R"({"prompt": "a", "echo": true})", false), "echo");
  EXPECT_EQ(RefusedFor(R"({"prompt": "a", "suffix": "b"})", false), "suffix");
  EXPECT_EQ(RefusedFor(R"({"prompt": "a", "best_of": 2})", false), "best_of");
  EXPECT_EQ(RefusedFor(R"({"prompt": "a", "logprobs": 6})", false), "logprobs");
}

TEST(ScoreRequest, HasATextOrAPromptAndACompletion) {
  const ScoreRequest text = ParseScore(R"({"text": "It is", "logprobs": 3})", Options());
  EXPECT_TRUE(text.prompt.text.empty());
  EXPECT_EQ(text.scored.text, "It is");
  EXPECT_EQ(text.likely_tokens, 3U);
  const ScoreRequest both =
      ParseScore(R"({"prompt": [1, 2], "completion": "is", "model": "K3"})", Options());
  EXPECT_EQ(both.prompt.ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(both.scored.text, "is");
  EXPECT_EQ(both.likely_tokens, 0U);
}

TEST(ScoreRequest, WhatMakesNoSenseIsRefusedByItsName) {
  const auto refused = [](const char* body) {
    try {
      ParseScore(body, Options());
    } catch (const ApiError& error) {
      return error.param();
    }
    return std::string("taken");
  };
  EXPECT_EQ(refused(R"({})"), "prompt");
  EXPECT_EQ(refused(R"({"prompt": "a"})"), "completion");
  EXPECT_EQ(refused(R"({"prompt": "a", "completion": ""})"), "completion");
  EXPECT_EQ(refused(R"({"prompt": "a", "completion": [1, "b"]})"), "completion");
  EXPECT_EQ(refused(R"({"prompt": "a", "completion": 5})"), "completion");
  EXPECT_EQ(refused(R"({"text": "a", "prompt": "b"})"), "prompt");
  EXPECT_EQ(refused(R"({"text": "a", "logprobs": 21})"), "logprobs");
  EXPECT_EQ(refused(R"({"text": "a", "model": "other"})"), "model");
}

TEST(CompletionRequest, ASeedThatNoneIsNamedForIsThatOfTheOptions) {
  ServerOptions options = Options();
  options.seed = 77;
  EXPECT_EQ(ParseTextCompletion(R"({"prompt": "a"})", options).options.sampling.seed, 77U);
  EXPECT_EQ(ParseTextCompletion(R"({"prompt": "a", "seed": 5})", options).options.sampling.seed,
            5U);
}

}  // namespace
}  // namespace kimi_k3::server
