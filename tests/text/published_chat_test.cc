// Rendering of conversations against the vendor's ids and token counts.
#include <sstream>

#include "kimi_k3/chat.h"
#include "kimi_k3/chat_parser.h"
#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

using nlohmann::ordered_json;

// The options of a case are what a client sends as chat_template_kwargs.
ChatRequest RequestOf(const ordered_json& entry) {
  const ordered_json request = {{"messages", entry.at("messages")},
                                {"chat_template_kwargs", entry.at("options")}};
  return ParseChatRequest(request.dump());
}

TEST(PublishedChat, EveryCaseGivesTheVendorsSegmentsAndIds) {
  SKIP_WITHOUT_SHARED_DATA();
  const ordered_json cases = ReadSharedJson("chat_cases.json").at("chat_cases");
  ASSERT_FALSE(cases.empty());
  for (const ordered_json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const ChatRequest request = RequestOf(entry);
    std::string joined;
    ordered_json segments = ordered_json::array();
    for (const ChatSegment& segment : RenderChatSegments(request)) {
      joined += segment.text;
      const bool is_special = segment.special_text == SpecialText::kRecognised;
      segments.push_back({segment.text, is_special ? 1 : 0});
    }
    EXPECT_EQ(joined, entry.at("text").get<std::string>());
    EXPECT_EQ(segments, entry.at("segments"));
    EXPECT_EQ(RenderChat(RealTokenizer(), request).ids,
              entry.at("ids").get<std::vector<TokenId>>());
  }
}

// The JSON between the next `front` and the `back` that follows it.
ordered_json JsonBetween(const std::string& document, size_t from, const std::string& front,
                         const std::string& back) {
  const size_t begin = document.find(front, from) + front.size();
  EXPECT_LT(begin, document.size()) << front;
  return ordered_json::parse(document.substr(begin, document.find(back, begin) - begin));
}

// Each says its messages, its options, the text that the segments join to, and how many ids they
// give.
TEST(PublishedChat, EveryWorkedExampleOfTheSpecification) {
  const std::filesystem::path file = SharedFolder() / "../../TEXT.md";
  SKIP_WITHOUT_SHARED_DATA();
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "needs the specification at " << file;
  const std::string document = ReadText(file);
  size_t examples = 0;
  for (size_t at = document.find("\n**E1."); at != std::string::npos;
       at = document.find("\n**E" + std::to_string(examples + 1) + ".", at)) {
    ++examples;
    SCOPED_TRACE(document.substr(at + 3, 40));
    const size_t ids = std::stoul(document.substr(document.find("`, ", at) + 3));
    ordered_json entry = {{"messages", JsonBetween(document, at, "messages: `", "`\n")},
                          {"options", JsonBetween(document, at, "options: `", "`\n")}};
    std::string text = JsonBetween(document, at, "```json\n", "\n```");
    // One requires a call without declaring tools, which the specification has refused elsewhere
    // (section 4.7): all but that message must be as it says.
    const bool refused = entry["options"].value("tool_choice", "") == "required" &&
                         !entry["options"].contains("tools");
    if (refused) {
      EXPECT_THROW(RenderChatSegments(RequestOf(entry)), Error);
      entry["options"].erase("tool_choice");
      const size_t begin = text.find("<|open|>message role=\"system\" type=\"tool-choice\"");
      text.erase(begin, text.find("<|open|>message", begin + 1) - begin);
    }
    const ChatRequest request = RequestOf(entry);
    std::string joined;
    for (const ChatSegment& segment : RenderChatSegments(request)) joined += segment.text;
    EXPECT_EQ(joined, text);
    if (!refused) {
      EXPECT_EQ(RenderChat(RealTokenizer(), request).ids.size(), ids);
    }
  }
  EXPECT_EQ(examples, 20U);
}

void ExpectVendorCounts(const std::string& file) {
  std::istringstream lines(ReadText(SharedFolder() / file));
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const ordered_json entry = ordered_json::parse(line);
    SCOPED_TRACE(entry.at("id").get<std::string>());
    const ChatRequest request = ParseChatRequest(entry.at("request").dump());
    EXPECT_EQ(RenderChat(RealTokenizer(), request).usage_tokens,
              entry.at("expected_prompt_tokens").get<size_t>());
  }
  EXPECT_GT(count, 0U);
}

TEST(PublishedChat, PromptTokenCountsAreTheVendors) {
  SKIP_WITHOUT_SHARED_DATA();
  ExpectVendorCounts("prompt_token_cases.jsonl");
}

TEST(PublishedChat, PartialPromptTokenCountsAreTheVendors) {
  SKIP_WITHOUT_SHARED_DATA();
  ExpectVendorCounts("prompt_token_cases.partial.jsonl");
}

ordered_json JsonOf(const ParsedTurn& turn) {
  ordered_json calls = ordered_json::array();
  for (const ToolCall& call : turn.tool_calls) {
    calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
  }
  return {{"reasoning_content", turn.reasoning},
          {"content", turn.content},
          {"tool_calls", calls},
          {"finish_reason", std::string(FinishReasonName(turn.finish_reason))}};
}

TEST(PublishedChat, EveryGeneratedTurnParsesAsExpected) {
  SKIP_WITHOUT_SHARED_DATA();
  const ordered_json cases = ReadSharedJson("chat_cases.json").at("parse_cases");
  ASSERT_FALSE(cases.empty());
  for (const ordered_json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const auto ids = entry.at("ids").get<std::vector<TokenId>>();
    const Channel start = entry.at("thinking").get<bool>() ? Channel::kThink : Channel::kResponse;
    EXPECT_EQ(JsonOf(ParseTurn(RealTokenizer(), ids, start)), entry.at("expect"));
  }
}

}  // namespace
}  // namespace kimi_k3
