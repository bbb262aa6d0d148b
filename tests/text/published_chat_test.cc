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
