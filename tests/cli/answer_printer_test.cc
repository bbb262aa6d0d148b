// How tokens become an answer on standard output.
#include "cli/answer_printer.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

// What standard output gets of a print.
class AnswerPrinterTest : public testing::Test {
 protected:
  AnswerPrinterTest()
      : tokenizer_(Tokenizer::Load(KIMI_K3_SOURCE_DIR "/tests/data/text/small")), output_(true) {}

  // Feeds the tokens of `text`, special names counting, until the printer has enough.
  std::string Print(AnswerPrinter& printer, const std::string& text) {
    testing::internal::CaptureStdout();
    state_ = AnswerState::kGoesOn;
    for (const TokenId token : tokenizer_.Encode(text, SpecialText::kRecognised)) {
      state_ = printer.Append(token);
      if (state_ != AnswerState::kGoesOn) break;
    }
    printer.Finish();
    return testing::internal::GetCapturedStdout();
  }

  Tokenizer tokenizer_;
  Output output_;
  AnswerState state_ = AnswerState::kGoesOn;
};

TEST_F(AnswerPrinterTest, IdsAreSeparatedBySpaces) {
  EXPECT_EQ(Print(*MakeIdPrinter(output_), "!\"!"), "0 1 0\n");
  EXPECT_EQ(Print(*MakeIdPrinter(output_), ""), "");
}

TEST_F(AnswerPrinterTest, TextIsPrintedAsItIs) {
  EXPECT_EQ(Print(*MakeTextPrinter(output_, tokenizer_, {}), "caf\xc3\xa9<|sep|>!"),
            "caf\xc3\xa9<|sep|>!\n");
  EXPECT_EQ(state_, AnswerState::kGoesOn);
}

TEST_F(AnswerPrinterTest, AStopTextEndsTheAnswerBeforeIt) {
  EXPECT_EQ(Print(*MakeTextPrinter(output_, tokenizer_, {"END"}), "one EN two END three"),
            "one EN two \n");
  EXPECT_EQ(state_, AnswerState::kStopText);
}

TEST_F(AnswerPrinterTest, WhatMightHaveBeenAStopTextIsGivenOutAtTheEnd) {
  EXPECT_EQ(Print(*MakeTextPrinter(output_, tokenizer_, {"END!"}), "the END"), "the END\n");
}

TEST_F(AnswerPrinterTest, AMessageThatIsClosedEndsTheAnswer) {
  EXPECT_EQ(Print(*MakeChatPrinter(output_, tokenizer_, Channel::kThink, false, {}),
                  "hm<|close|>think<|sep|><|open|>response<|sep|>yes<|close|>response<|sep|>"
                  "<|close|>message<|sep|>more"),
            "<think>\nhm\n</think>\n\nyes\n");
  EXPECT_EQ(state_, AnswerState::kEnded);
}

TEST_F(AnswerPrinterTest, StopTextsCountInTheAnswerAndNotInTheReasoning) {
  EXPECT_EQ(Print(*MakeChatPrinter(output_, tokenizer_, Channel::kThink, false, {"es"}),
                  "yes?<|close|>think<|sep|><|open|>response<|sep|>yes!"),
            "<think>\nyes?\n</think>\n\ny\n");
  EXPECT_EQ(state_, AnswerState::kStopText);
}

TEST_F(AnswerPrinterTest, ReasoningCutShortIsClosed) {
  EXPECT_EQ(Print(*MakeChatPrinter(output_, tokenizer_, Channel::kThink, false, {}), "well"),
            "<think>\nwell\n</think>\n\n\n");
}

TEST_F(AnswerPrinterTest, HiddenReasoningLeavesNothing) {
  EXPECT_EQ(Print(*MakeChatPrinter(output_, tokenizer_, Channel::kThink, true, {}),
                  "hm<|close|>think<|sep|><|open|>response<|sep|>yes"),
            "yes\n");
}

}  // namespace
}  // namespace kimi_k3
