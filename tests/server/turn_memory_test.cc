// Turns that come back.
#include "server/turn_memory.h"

#include <gtest/gtest.h>

namespace kimi_k3::server {
namespace {

ChatRequest Question(const std::string& text) {
  ChatRequest request;
  request.messages = {ChatMessage::User(text)};
  return request;
}

GeneratedTurn Turn(const std::string& content) {
  return {.reasoning = "why",
          .content = content,
          .tool_calls = {},
          .ids = {1, 2, 3},
          .start = Channel::kThink};
}

// The question, the answer as the client has it, and one more question.
ChatRequest Continued(const std::string& question, const std::string& answer,
                      const std::string& reasoning) {
  ChatRequest request = Question(question);
  request.messages.push_back(ChatMessage::Assistant(answer, reasoning));
  request.messages.push_back(ChatMessage::User("and then?"));
  return request;
}

bool Restored(TurnMemory& memory, ChatRequest request) {
  memory.Restore(request);
  const ChatMessage& answer = request.messages[1];
  if (answer.generated.empty()) return false;
  EXPECT_EQ(answer.generated, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(answer.generated_start, Channel::kThink);
  return true;
}

TEST(TurnMemory, KnowsItsTurnsWithAndWithoutTheirReasoning) {
  TurnMemory memory(10);
  memory.Remember(TurnMemory::KeyOf(Question("a")), Turn("b"));
  EXPECT_TRUE(Restored(memory, Continued("a", "b", "")));
  EXPECT_TRUE(Restored(memory, Continued("a", "b", "why")));
  EXPECT_FALSE(Restored(memory, Continued("a", "b", "other")));
  EXPECT_FALSE(Restored(memory, Continued("a", "B", "")));
  EXPECT_FALSE(Restored(memory, Continued("A", "b", "")));
}

TEST(TurnMemory, SettingsThatThePromptShowsMustBeTheSame) {
  TurnMemory memory(10);
  memory.Remember(TurnMemory::KeyOf(Question("a")), Turn("b"));
  ChatRequest request = Continued("a", "b", "");
  request.effort = ThinkingEffort::kLow;
  EXPECT_FALSE(Restored(memory, request));
  request = Continued("a", "b", "");
  request.tools = "[1]";
  EXPECT_FALSE(Restored(memory, request));
  request = Continued("a", "b", "");
  request.messages[1].partial = true;
  EXPECT_FALSE(Restored(memory, request));
}

TEST(TurnMemory, FollowsAConversationThroughItsTurns) {
  TurnMemory memory(10);
  memory.Remember(TurnMemory::KeyOf(Question("a")), Turn("b"));
  ChatRequest second = Continued("a", "b", "why");
  memory.Remember(TurnMemory::KeyOf(second), Turn("d"));
  second.messages[1].reasoning.clear();
  second.messages.push_back(ChatMessage::Assistant("d"));
  memory.Restore(second);
  EXPECT_FALSE(second.messages[1].generated.empty());
  EXPECT_FALSE(second.messages[3].generated.empty());
}

TEST(TurnMemory, CallsCountByNameAndArguments) {
  TurnMemory memory(10);
  GeneratedTurn turn = Turn("");
  turn.tool_calls = {{"call_1", "f", "{}"}};
  memory.Remember(TurnMemory::KeyOf(Question("a")), turn);
  ChatRequest request = Continued("a", "", "");
  EXPECT_FALSE(Restored(memory, request));
  request.messages[1].tool_calls = {{"another_id", "f", "{}"}};
  EXPECT_TRUE(Restored(memory, request));
  request.messages[1].tool_calls[0].arguments = "{\"a\": 1}";
  EXPECT_FALSE(Restored(memory, request));
}

TEST(TurnMemory, TheOldestMakeRoom) {
  TurnMemory memory(2);
  for (const char* question : {"a", "b", "c"}) {
    memory.Remember(TurnMemory::KeyOf(Question(question)), Turn("x"));
  }
  EXPECT_FALSE(Restored(memory, Continued("a", "x", "")));
  EXPECT_TRUE(Restored(memory, Continued("b", "x", "")));
  EXPECT_TRUE(Restored(memory, Continued("c", "x", "")));
}

}  // namespace
}  // namespace kimi_k3::server
