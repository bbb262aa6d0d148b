// The note of a session: written, read, and nothing else believed.
#include "cli/session_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

SessionNote ChatNote() {
  SessionNote note;
  note.text = {1, 2, 3, 4, 5};
  note.answer_begin = 3;
  note.prompt = "hello \xf0\x9f\x98\x80";
  note.chat_start = Channel::kThink;
  note.messages = {ChatMessage::System("be brief"), ChatMessage::User("hello")};
  ChatMessage answer = ChatMessage::Assistant("hi", "thought");
  answer.generated = {7, 8};
  answer.generated_start = Channel::kThink;
  answer.tool_calls = {{.id = "a", .name = "f", .arguments = "{}"}};
  note.messages.push_back(answer);
  note.effort = ThinkingEffort::kLow;
  note.max_tokens = 99;
  note.sampling = {.temperature = 0.7F,
                   .top_k = 4,
                   .top_p = 0.95F,
                   .min_p = 0.1F,
                   .repeat_penalty = 1.1F,
                   .repeat_last = 5,
                   .seed = ~uint64_t{0}};
  note.stop = {"x", "y"};
  note.stop_reason = "stopped";
  return note;
}

SessionNote Read(const std::string& json, std::vector<TokenId> seen) {
  SessionInfo info;
  info.note = json;
  info.tokens = std::move(seen);
  return ReadSessionNote(info, "file");
}

TEST(SessionNote, ComesBackAsItWas) {
  const SessionNote note = ChatNote();
  const SessionNote back = Read(WriteSessionNote(note, 2), {1, 2});
  EXPECT_EQ(back.text, note.text);
  EXPECT_EQ(back.answer_begin, note.answer_begin);
  EXPECT_EQ(back.prompt, note.prompt);
  EXPECT_EQ(back.chat_start, note.chat_start);
  ASSERT_EQ(back.messages.size(), 3U);
  EXPECT_EQ(back.messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(back.messages[1].content[0].text, "hello");
  EXPECT_EQ(back.messages[2].reasoning, "thought");
  EXPECT_EQ(back.messages[2].generated, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(back.messages[2].generated_start, Channel::kThink);
  EXPECT_EQ(back.messages[2].tool_calls[0].name, "f");
  EXPECT_EQ(back.thinking, true);
  EXPECT_EQ(back.effort, ThinkingEffort::kLow);
  EXPECT_EQ(back.max_tokens, 99U);
  EXPECT_EQ(back.sampling.temperature, 0.7F);
  EXPECT_EQ(back.sampling.top_p, 0.95F);
  EXPECT_EQ(back.sampling.repeat_penalty, 1.1F);
  EXPECT_EQ(back.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(back.stop, note.stop);
  EXPECT_EQ(back.stop_reason, "stopped");
  EXPECT_TRUE(back.finished());
}

TEST(SessionNote, IsFinishedOnlyWhereTheAnswerEnded) {
  SessionNote note;
  EXPECT_FALSE(note.finished());
  note.stop_reason = "interrupted";
  EXPECT_FALSE(note.finished());
  note.stop_reason = "token limit";
  EXPECT_TRUE(note.finished());
}

TEST(SessionNote, OfAnotherKindIsRefusedInWords) {
  const std::string good = WriteSessionNote(ChatNote(), 0);
  std::vector<std::string> bad = {"", "{}", "[]", "null", "\"x\"", good.substr(0, good.size() - 5)};
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    bad.push_back(changed.replace(at, from.size(), to));
  };
  with("\"answer_begin\":3", "\"answer_begin\":6");
  with("\"answer_begin\":3", "\"answer_begin\":-1");
  with("[1,2,3,4,5]", "[1,-2]");
  with("[1,2,3,4,5]", "[\"a\"]");
  with("\"user\"", "\"god\"");
  with("\"chat_start\":\"think\"", "\"chat_start\":\"nowhere\"");
  with("\"low\"", "\"lowest\"");
  with("\"top_p\":", "\"top_p\":7,\"x\":");
  with("\"content\":\"hello\"", "\"content\":5");
  for (const std::string& json : bad) {
    try {
      Read(json, {});
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), testing::StartsWith("file: "));
      EXPECT_THAT(error.what(), testing::HasSubstr("begin another one"));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("exception")));
    }
  }
}

}  // namespace
}  // namespace kimi_k3
