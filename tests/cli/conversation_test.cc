// Conversations: each prompt extends what was processed before, wherever an answer was cut.
#include "cli/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

class Conversation : public testing::Test {
 protected:
  // Appends generated text in the chat format: names of control tokens count.
  void Generate(const std::string& text) {
    tokenizer_.Encode(text, SpecialText::kRecognised, note_.text);
  }
  bool Extends(const std::vector<TokenId>& before) const {
    return before.size() < note_.text.size() &&
           std::equal(before.begin(), before.end(), note_.text.begin());
  }

  Tokenizer tokenizer_ = Tokenizer::Load(TinyModel());
  SessionNote note_;
};

TEST_F(Conversation, ASecondQuestionExtendsTheFirstAnswer) {
  AskInChat(note_, tokenizer_, "one?");
  EXPECT_EQ(note_.answer().size(), 0U);
  EXPECT_EQ(note_.chat_start, Channel::kThink);
  Generate("thought<|close|>think<|sep|><|open|>response<|sep|>answer<|close|>response<|sep|>");
  const std::vector<TokenId> before = note_.text;
  FoldAnswer(note_, tokenizer_);
  EXPECT_EQ(note_.messages.back().content[0].text, "answer");
  EXPECT_EQ(note_.messages.back().reasoning, "thought");
  AskInChat(note_, tokenizer_, "two?");
  EXPECT_TRUE(Extends(before));
  EXPECT_EQ(note_.messages.size(), 3U);
}

TEST_F(Conversation, FoldingTwiceOrBeforeAnyQuestionChangesNothing) {
  FoldAnswer(note_, tokenizer_);
  EXPECT_TRUE(note_.messages.empty());
  note_.messages.push_back(ChatMessage::System("s"));
  FoldAnswer(note_, tokenizer_);
  EXPECT_EQ(note_.messages.size(), 1U);
  AskInChat(note_, tokenizer_, "one?");
  Generate("x");
  FoldAnswer(note_, tokenizer_);
  FoldAnswer(note_, tokenizer_);
  EXPECT_EQ(note_.messages.size(), 3U);
}

// Every place where an answer can be cut: the check is right, and where it says so the prompt that
// follows extends all that was processed.
TEST_F(Conversation, EndsBetweenTagsTellsWhereTheStateStaysOfUse) {
  AskInChat(note_, tokenizer_, "one?");
  const SessionNote asked = note_;
  Generate(
      "a thought<|close|>think<|sep|><|open|>response<|sep|>an answer<|close|>response<|sep|>"
      "<|close|>message<|sep|>");
  const std::vector<TokenId> whole = note_.text;
  size_t between = 0;
  for (size_t size = asked.text.size() + 1; size <= whole.size(); ++size) {
    note_ = asked;
    note_.text.assign(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const bool good = EndsBetweenTags(note_, tokenizer_);
    between += static_cast<size_t>(good);
    std::vector<TokenId> processed = note_.text;
    processed.pop_back();
    FoldAnswer(note_, tokenizer_);
    AskInChat(note_, tokenizer_, "two?");
    EXPECT_EQ(Extends(processed), good) << size - asked.text.size();
  }
  EXPECT_GT(between, 10U);
  EXPECT_LT(between, whole.size() - asked.text.size());
}

}  // namespace
}  // namespace kimi_k3
