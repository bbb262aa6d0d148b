// Order and names of tool results.
#include "text/message_order.h"

#include <gmock/gmock.h>

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

ChatMessage Calls(std::vector<ToolCall> calls) {
  ChatMessage message = ChatMessage::Assistant("");
  message.tool_calls = std::move(calls);
  return message;
}

ChatMessage Result(std::string id, std::string tool = {}, std::string name = {}) {
  ChatMessage message;
  message.role = ChatRole::kTool;
  message.tool_call_id = std::move(id);
  message.tool = std::move(tool);
  message.name = std::move(name);
  return message;
}

// "source index:tool#tool index" of each message; tool results only.
std::vector<std::string> Order(const std::vector<ChatMessage>& messages) {
  std::vector<std::string> order;
  for (const PlacedMessage& placed : ArrangeMessages(messages)) {
    if (placed.message->role != ChatRole::kTool) continue;
    order.push_back(std::to_string(placed.source_index) + ":" + placed.tool_name + "#" +
                    std::to_string(placed.tool_index));
  }
  return order;
}

using List = std::vector<std::string>;

TEST(MessageOrder, ResultsFollowTheCallsAndTakeTheirNames) {
  EXPECT_EQ(Order({Calls({{"a", "alpha", ""}, {"b", "beta", ""}}), Result("b", "x", "stale"),
                   Result("a")}),
            (List{"2:alpha#1", "1:beta#2"}));
}

TEST(MessageOrder, ARunWithAStrangerStaysAsItIs) {
  EXPECT_EQ(Order({Calls({{"a", "alpha", ""}, {"b", "beta", ""}}), Result("b"),
                   Result("c", "tooled", "named"), Result("a", "", "named")}),
            (List{"1:alpha#1", "2:tooled#2", "3:named#3"}));
}

TEST(MessageOrder, OnlyTheFirstOfCallsWithOneIdCounts) {
  EXPECT_EQ(Order({Calls({{"a", "first", ""}, {"a", "second", ""}}), Result("a"), Result("a")}),
            (List{"1:first#1", "2:first#2"}));
}

TEST(MessageOrder, SortingIsStableAndEachRunSortsAlone) {
  EXPECT_EQ(Order({Calls({{"a", "alpha", ""}, {"b", "beta", ""}}), Result("b"),
                   ChatMessage::User("between"), Result("b"), Result("a")}),
            (List{"1:beta#1", "4:alpha#2", "3:beta#3"}));
}

TEST(MessageOrder, ResultsBelongToTheLastAssistantMessage) {
  EXPECT_EQ(Order({Calls({{"a", "old", ""}}), Result("a"), Calls({{"a", "new", ""}}), Result("a")}),
            (List{"1:old#1", "3:new#1"}));
}

TEST(MessageOrder, WithoutIdsNamesComeFromTheMessageOrTheCallInTheSamePlace) {
  EXPECT_EQ(Order({Calls({{"a", "alpha", ""}, {"b", "beta", ""}, {"c", "gamma", ""}}),
                   Result("", "tooled", "named"), Result("", "", "named"), Result("")}),
            (List{"1:tooled#1", "2:named#2", "3:gamma#3"}));
}

TEST(MessageOrder, AResultWithoutAnyNameIsRefused) {
  const Error error = ErrorOf([] { Order({ChatMessage::User("hi"), Result("a")}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), testing::HasSubstr("messages[1]"));
}

}  // namespace
}  // namespace kimi_k3::text
