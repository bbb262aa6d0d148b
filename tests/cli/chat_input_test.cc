// Messages of one line and of several.
#include "cli/chat_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kimi_k3 {
namespace {

class Lines : public LineReader {
 public:
  explicit Lines(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  Line Read(const std::string& prompt) override {
    prompts += prompt;
    if (next_ == lines_.size()) return {};
    const std::string& text = lines_[next_++];
    if (text == "^C") return {.kind = LineKind::kInterrupted, .text = {}, .verbatim = false};
    return {.kind = LineKind::kLine, .text = text, .verbatim = false};
  }
  void Remember(const std::string& text) override { remembered.push_back(text); }

  std::vector<std::string> remembered;
  std::string prompts;

 private:
  std::vector<std::string> lines_;
  size_t next_ = 0;
};

// The messages, "^C" for interruptions.
std::vector<std::string> Messages(std::vector<std::string> lines) {
  Lines reader(std::move(lines));
  ChatInput input(reader);
  std::vector<std::string> messages;
  for (;;) {
    const Line line = input.Next();
    if (line.kind == LineKind::kEnd) return messages;
    messages.push_back(line.kind == LineKind::kInterrupted ? "^C" : line.text);
  }
}

using testing::ElementsAre;

TEST(ChatInput, ALineIsAMessage) {
  EXPECT_THAT(Messages({"one", "", " two "}), ElementsAre("one", "", " two "));
}

TEST(ChatInput, ABackslashAtTheEndGoesOnInTheNextLine) {
  EXPECT_THAT(Messages({"one\\", "two\\", "three", "four"}),
              ElementsAre("one\ntwo\nthree", "four"));
}

TEST(ChatInput, BetweenFencesLinesAreTakenAsTheyStand) {
  EXPECT_THAT(Messages({"\"\"\"", "/help", "  two\\", "", "\"\"\"", "next"}),
              ElementsAre("/help\n  two\\\n", "next"));
  EXPECT_THAT(Messages({"\"\"\"one line\"\"\""}), ElementsAre("one line"));
  EXPECT_THAT(Messages({"\"\"\"begun", "ended\"\"\""}), ElementsAre("begun\nended"));
}

TEST(ChatInput, WhatIsBegunIsDroppedAtTheEndAndAtASignal) {
  EXPECT_THAT(Messages({"\"\"\"one", "two"}), ElementsAre());
  EXPECT_THAT(Messages({"one\\", "^C", "two"}), ElementsAre("^C", "two"));
  EXPECT_THAT(Messages({"\"\"\"", "^C", "two"}), ElementsAre("^C", "two"));
}

TEST(ChatInput, TellsWhetherTheInputEndedWithinAMessage) {
  for (const auto& [lines, unfinished] :
       std::vector<std::pair<std::vector<std::string>, bool>>{{{"one"}, false},
                                                              {{"one\\"}, true},
                                                              {{"\"\"\"", "two"}, true},
                                                              {{"one\\", "two"}, false}}) {
    Lines reader(lines);
    ChatInput input(reader);
    while (input.Next().kind == LineKind::kLine) {
    }
    EXPECT_EQ(input.unfinished(), unfinished) << lines.front();
  }
}

TEST(ChatInput, WholeMessagesAreRemembered) {
  Lines reader({"one\\", "two", "", "three"});
  ChatInput input(reader);
  while (input.Next().kind == LineKind::kLine) {
  }
  EXPECT_THAT(reader.remembered, ElementsAre("one\ntwo", "three"));
  EXPECT_EQ(reader.prompts, "> . > > > ");
}

}  // namespace
}  // namespace kimi_k3
