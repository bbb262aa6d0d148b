// Generated turns, canonical and deviating, with the small vocabulary.
#include "kimi_k3/chat_parser.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "kimi_k3/utf8.h"
#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;
using Ids = std::vector<TokenId>;

// Ids of a text whose special names are the special tokens.
Ids Encoded(std::string_view text) {
  return SmallTokenizer().Encode(text, SpecialText::kRecognised);
}

Ids Plain(std::string_view text) { return SmallTokenizer().Encode(text, SpecialText::kPlain); }

Ids operator+(Ids left, const Ids& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

ParsedTurn Parse(const Ids& ids, Channel start = Channel::kThink) {
  return ParseTurn(SmallTokenizer(), ids, start);
}

ParsedTurn Parse(std::string_view text, Channel start = Channel::kThink) {
  return Parse(Encoded(text), start);
}

// "reasoning|content|name(arguments)...|finish reason"
std::string Summary(const ParsedTurn& turn) {
  std::string summary = turn.reasoning + "|" + turn.content + "|";
  for (const ToolCall& call : turn.tool_calls) summary += call.name + "(" + call.arguments + ")";
  return summary + "|" + std::string(FinishReasonName(turn.finish_reason));
}

std::string Thinking(std::string_view text) { return Summary(Parse(text)); }
std::string Answering(std::string_view text) { return Summary(Parse(text, Channel::kResponse)); }

std::string Open(const std::string& header) { return "<|open|>" + header + "<|sep|>"; }
std::string Close(const std::string& tag) { return "<|close|>" + tag + "<|sep|>"; }

const std::string kTurnEnd = Close("message") + "<|end_of_msg|>";
const std::string kToResponse = Close("think") + Open("response");

std::string Argument(const std::string& key, const std::string& type, const std::string& value) {
  return Open("argument key=\"" + key + "\" type=\"" + type + "\"") + value + Close("argument");
}

std::string Call(const std::string& name, const std::string& arguments) {
  return Open("call tool=\"" + name + "\" index=\"1\"") + arguments + Close("call");
}

std::string ToolTurn(const std::string& calls) {
  return "r" + Close("think") + Open("tools") + calls + Close("tools") + kTurnEnd;
}

TEST(ChatParser, ACanonicalTurnHasReasoningAndAnswer) {
  EXPECT_EQ(Thinking("Two and two." + kToResponse + "4\n" + Close("response") + kTurnEnd),
            "Two and two.|4\n||stop");
  EXPECT_EQ(Answering("4" + Close("response") + kTurnEnd), "|4||stop");
  EXPECT_EQ(Thinking("r" + kToResponse + "4" + Close("response") + Close("message") + "[EOS]"),
            "r|4||stop");
}

TEST(ChatParser, AnyStopTokenEndsTheTurn) {
  for (const char* stop : {"<|end_of_msg|>", "[EOS]", "[EOT]"}) {
    EXPECT_EQ(Thinking("r" + kToResponse + "4" + stop + "more"), "r|4||stop") << stop;
    EXPECT_EQ(Thinking(std::string("r") + stop), "r|||stop");
  }
  EXPECT_EQ(Thinking("r" + kToResponse + "4[PAD]"), "r|4[PAD]||length");
}

TEST(ChatParser, ACutTurnEndsWithLength) {
  EXPECT_EQ(Thinking("still"), "still|||length");
  EXPECT_EQ(Thinking(""), "|||length");
  EXPECT_EQ(Thinking("r<|close|>thi"), "r|||length");
  EXPECT_EQ(Thinking("r" + kToResponse + "half"), "r|half||length");
  EXPECT_EQ(Thinking("r" + kToResponse + "half<|close|>"), "r|half||length");
}

TEST(ChatParser, WhereverThinkingIsCutNothingReachesTheAnswer) {
  const Ids ids = Encoded("some long thought about nothing" + Close("think"));
  for (size_t i = 0; i <= ids.size(); ++i) {
    const ParsedTurn turn = Parse(Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i)));
    EXPECT_EQ(turn.content, "");
    EXPECT_EQ(turn.finish_reason, FinishReason::kLength);
  }
}

TEST(ChatParser, EchoedOpenersAreDroppedBeforeText) {
  EXPECT_EQ(Thinking(Open("think") + "t" + kToResponse + Open("response") + "x"), "t|x||length");
  EXPECT_EQ(Answering(Open("response") + "x" + Close("response")), "|x||length");
  EXPECT_EQ(Answering("x" + Open("response")), "|x<|open|>response<|sep|>||length");
}

TEST(ChatParser, MissingCloseTagsAreTolerated) {
  EXPECT_EQ(Thinking("r" + Open("response") + "x" + kTurnEnd), "r|x||stop");
  EXPECT_EQ(Thinking("r" + Open("tools") + Call("f", "") + kTurnEnd), "r||f({})|tool_calls");
  EXPECT_EQ(Answering("x" + Open("tools") + Call("f", "") + kTurnEnd), "|x|f({})|tool_calls");
  EXPECT_EQ(Thinking("r" + Close("message")), "r|||stop");
  EXPECT_EQ(Answering("x" + Close("message") + "y"), "|x||stop");
}

TEST(ChatParser, FurtherThinkBlocksAreReasoning) {
  EXPECT_EQ(Thinking("a" + Close("think") + Open("think") + "b" + kToResponse + "x"),
            "ab|x||length");
  EXPECT_EQ(Answering(Open("think") + "b" + kToResponse + "x"), "b|x||length");
}

TEST(ChatParser, ClosingTagsOfNothingAreDropped) {
  EXPECT_EQ(Answering("x" + Close("think") + "y"), "|xy||length");
  EXPECT_EQ(Thinking("x" + Close("response") + Close("tools") + "y"), "xy|||length");
  EXPECT_EQ(Answering("x" + Close("call") + Close("argument") + Close("json")), "|x||length");
}

TEST(ChatParser, AClosingTagWithoutANameClosesTheInnermost) {
  EXPECT_EQ(Thinking("r<|close|><|sep|>" + Open("response") +
                     "x<|close|><|sep|>"
                     "<|close|><|sep|>after"),
            "r|x||stop");
  EXPECT_EQ(Thinking("r" + Open("tools") + Open("call tool=\"f\"") + Open("argument key=\"a\"") +
                     "v<|close|><|sep|><|close|><|sep|><|close|><|sep|><|close|><|sep|>"),
            "r||f({\"a\": \"v\"})|tool_calls");
}

TEST(ChatParser, TextBetweenChannelsIsContentAndWhiteSpaceIsNot) {
  EXPECT_EQ(Thinking("r" + Close("think") + "\n \u3000" + Open("response") + "x" +
                     Close("response") + "\n\n" + kTurnEnd),
            "r|x||stop");
  EXPECT_EQ(Thinking("r" + Close("think") + " stray " + Open("response") + "x"),
            "r| stray x||length");
  EXPECT_EQ(Thinking("r" + Open("tools") + "\n" + Call("f", "\n") + " and " + Call("g", "") +
                     Close("tools") + "after" + kTurnEnd),
            "r| and after|f({})g({})|tool_calls");
}

TEST(ChatParser, MarkersSpelledWithOrdinaryTokensAreText) {
  const std::string marker = "<|close|>argument<|sep|></tool_call> \"\\\n";
  const Ids ids = Encoded("r" + Close("think") + Open("tools") + Open("call tool=\"write\"") +
                          Open("argument key=\"text\" type=\"string\"")) +
                  Plain(marker) +
                  Encoded(Close("argument") + Close("call") + Close("tools") + kTurnEnd);
  const ParsedTurn turn = Parse(ids);
  ASSERT_EQ(turn.tool_calls.size(), 1U);
  EXPECT_EQ(nlohmann::json::parse(turn.tool_calls[0].arguments).at("text"), marker);
  const ParsedTurn text = Parse(Plain(marker) + Encoded(kToResponse) + Plain(marker));
  EXPECT_EQ(text.reasoning, marker);
  EXPECT_EQ(text.content, marker);
}

TEST(ChatParser, ArgumentsRoundTripWhateverTheyHold) {
  const std::string value = std::string("a\"b\\c\nd\0é😀</x>&amp;", 22);
  const ParsedTurn turn = Parse(Encoded("r" + Close("think") + Open("tools") +
                                        Open("call tool=\"f\"") + Open("argument key=\"v\"")) +
                                Plain(value) + Encoded(Close("argument") + Close("call")));
  ASSERT_EQ(turn.tool_calls.size(), 1U);
  EXPECT_EQ(nlohmann::json::parse(turn.tool_calls[0].arguments).at("v"), value);
  EXPECT_EQ(turn.finish_reason, FinishReason::kLength);
}

TEST(ChatParser, ArgumentsAreTyped) {
  EXPECT_EQ(
      Thinking(ToolTurn(Call("f", Argument("s", "string", "1") + Argument("n", "number", "1e3") +
                                      Argument("o", "object", "{\"a\": [1]}") +
                                      Argument("bad", "number", "12abc")))),
      "r||f({\"s\": \"1\", \"n\": 1e3, \"o\": {\"a\": [1]}, \"bad\": \"12abc\"})|tool_calls");
  EXPECT_EQ(
      Thinking(ToolTurn(Call("f", Argument("a", "number", "1") + Argument("b", "number", "2") +
                                      Argument("a", "number", "3")))),
      "r||f({\"a\": 3, \"b\": 2})|tool_calls");
  EXPECT_EQ(
      Thinking(ToolTurn(Call("f", Open("json type=\"object\"") + "{\"a\":1}" + Close("json")))),
      "r||f({\"a\":1})|tool_calls");
}

TEST(ChatParser, UnclosedArgumentsEndWithTheirCallOrTheNextArgument) {
  const std::string open = Open("argument key=\"a\" type=\"string\"");
  EXPECT_EQ(Thinking(ToolTurn(Call("f", open + "v"))), "r||f({\"a\": \"v\"})|tool_calls");
  EXPECT_EQ(Thinking(ToolTurn(Call("f", open + "v" + Argument("b", "number", "1")))),
            "r||f({\"a\": \"v\", \"b\": 1})|tool_calls");
}

TEST(ChatParser, ACallThatIsNotClosedDoesNotCount) {
  const std::string start = "r" + Close("think") + Open("tools");
  EXPECT_EQ(Thinking(start + Call("a", "") + Open("call tool=\"b\"") + Open("argument key=\"x\"") +
                     "half"),
            "r||a({})|length");
  EXPECT_EQ(Thinking(start + Open("call tool=\"b\"") + "<|end_of_msg|>"), "r|||stop");
  EXPECT_EQ(Thinking(start + Open("call tool=\"b\"") + Close("tools") + kTurnEnd), "r|||stop");
  EXPECT_EQ(Thinking(start + Open("call tool=\"a\"") + Call("b", "") + kTurnEnd),
            "r||b({})|tool_calls");
  EXPECT_EQ(Thinking(start + Open("call index=\"1\"") + Argument("x", "string", "y") +
                     Close("call") + kTurnEnd),
            "r|||stop");
}

TEST(ChatParser, AStrayMarkerRightAfterToolsEndsNothingSilently) {
  EXPECT_EQ(Thinking("r" + Open("tools") + "<|open|>" + Call("f", "") + kTurnEnd),
            "r|<|open|>|f({})|tool_calls");
  EXPECT_EQ(Thinking("r" + Open("tools") + "<|sep|>" + Open("message role=\"user\"") +
                     Call("f", "") + kTurnEnd),
            "r||f({})|tool_calls");
}

TEST(ChatParser, ManyAndLargeCallsAreWhole) {
  for (const size_t size : {7'900U, 8'100U, 65'536U, 524'288U}) {
    const std::string value = Repeat("x1 \n", size / 4);
    const ParsedTurn turn = Parse(ToolTurn(Call("f", Argument("v", "string", value))));
    ASSERT_EQ(turn.tool_calls.size(), 1U);
    EXPECT_EQ(nlohmann::json::parse(turn.tool_calls[0].arguments).at("v"), value);
  }
  EXPECT_EQ(Parse(ToolTurn(Repeat(Call(Repeat("n", 300), ""), 16))).tool_calls.size(), 16U);
  const std::string nested = Repeat("[", 50) + Repeat("]", 50);
  EXPECT_THAT(Thinking(ToolTurn(Call("f", Argument("v", "array", nested)))),
              HasSubstr("{\"v\": " + nested + "}"));
}

TEST(ChatParser, AControlTokenInsideATagMakesItText) {
  EXPECT_EQ(Answering("a<|open|>thi<|close|>response<|sep|>" + kTurnEnd), "|a<|open|>thi||stop");
  EXPECT_EQ(Answering("a<|open|>b<|open|>tools<|sep|>" + Call("f", "") + kTurnEnd),
            "|a<|open|>b|f({})|tool_calls");
  EXPECT_EQ(Answering("a<|close|>mess<|end_of_msg|>"), "|a<|close|>mess||stop");
  EXPECT_EQ(Answering("a<|close|>mess[EOS]"), "|a||stop");
}

TEST(ChatParser, UnknownTagsAreTextInsideAChannelAndNothingBetween) {
  EXPECT_EQ(Answering("a" + Open("b c=\"d\"") + "e" + Close("b")),
            "|a<|open|>b c=\"d\"<|sep|>e<|close|>b<|sep|>||length");
  EXPECT_EQ(Answering("a" + Close("response") + Open("b") + Close("b")), "|a||length");
  EXPECT_EQ(Answering("a<|sep|>b" + Close("response") + "<|sep|>"), "|a<|sep|>b||length");
}

TEST(ChatParser, CharactersSplitOverTokensAppearWhole) {
  ChatParser parser(SmallTokenizer(), Channel::kResponse);
  const Ids bytes = [] {
    Ids ids;
    for (const char c : std::string("\xF0\x9F\x98\x80\xE4\xB8\xAD")) {
      for (TokenId id = 0; id < 256; ++id) {
        if (SmallTokenizer().TokenBytes(id)[0] == c) ids.push_back(id);
      }
    }
    return ids;
  }();
  ASSERT_EQ(bytes.size(), 7U);
  std::vector<std::string> deltas;
  for (const TokenId id : bytes) deltas.push_back(parser.Append(id).content);
  EXPECT_EQ(deltas, (std::vector<std::string>{"", "", "", "😀", "", "", "中"}));
  EXPECT_EQ(parser.Append(bytes[0]).content, "");
  EXPECT_EQ(parser.Append(bytes[1]).content, "");
  EXPECT_EQ(parser.Finish().content, "\uFFFD");
}

TEST(ChatParser, ABrokenCharacterDoesNotCrossChannels) {
  const Ids half = [] {
    for (TokenId id = 0; id < 256; ++id) {
      if (SmallTokenizer().TokenBytes(id) == "\xE4") return Ids{id};
    }
    return Ids{};
  }();
  ASSERT_EQ(half.size(), 1U);
  const ParsedTurn turn = Parse(half + Encoded(kToResponse) + half + Encoded(kTurnEnd));
  EXPECT_EQ(turn.reasoning, "\uFFFD");
  EXPECT_EQ(turn.content, "\uFFFD");
}

TEST(ChatParser, TheChannelIsKnownWhileParsing) {
  ChatParser parser(SmallTokenizer(), Channel::kThink);
  EXPECT_EQ(parser.channel(), Channel::kThink);
  const auto append = [&parser](std::string_view text) {
    for (const TokenId id : Encoded(text)) parser.Append(id);
  };
  append("r" + Close("think"));
  EXPECT_EQ(parser.channel(), Channel::kNone);
  append(Open("response"));
  EXPECT_EQ(parser.channel(), Channel::kResponse);
  append(Close("response") + Open("tools") + Call("f", ""));
  EXPECT_EQ(parser.channel(), Channel::kNone);
  EXPECT_FALSE(parser.ended());
  EXPECT_EQ(parser.finish_reason(), FinishReason::kLength);
  append(Close("tools") + Close("message"));
  EXPECT_TRUE(parser.ended());
  EXPECT_EQ(parser.finish_reason(), FinishReason::kToolCalls);
}

TEST(ChatParser, CallsAreEmittedWhenTheyClose) {
  ChatParser parser(SmallTokenizer(), Channel::kResponse);
  const Ids ids = Encoded(Open("tools") + Call("f", Argument("a", "string", "x")));
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_TRUE(parser.Append(ids[i]).empty());
  const ChatDelta delta = parser.Append(ids.back());
  ASSERT_EQ(delta.tool_calls.size(), 1U);
  EXPECT_EQ(delta.tool_calls[0].arguments, "{\"a\": \"x\"}");
}

TEST(ChatParser, AContinuedAnswerStartsWhereThePromptEnded) {
  EXPECT_EQ(Summary(Parse(Open("think") + "r" + kToResponse + "x", Channel::kNone)), "r|x||length");
}

TEST(ChatParser, IdsOutsideTheVocabularyAreRefused) {
  ChatParser parser(SmallTokenizer(), Channel::kResponse);
  EXPECT_EQ(ErrorOf([&] { parser.Append(788); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(ErrorOf([&] { parser.Append(-1); }).kind(), ErrorKind::kUsage);
}

// The same turns split at every byte: tags and words come in other tokens, the result is the same.
TEST(ChatParser, TokenBoundariesDoNotMatter) {
  const std::vector<std::string> turns = {
      "thought 😀" + kToResponse + "answer 中文" + Close("response") + kTurnEnd,
      ToolTurn(
          Call("get_weather", Argument("city", "string", "北京") + Argument("n", "number", "2"))),
      ToolTurn(Call("a", "") +
               Call("b", Open("json type=\"object\"") + "{\"x\": 1}" + Close("json"))),
      "r" + Open("response") + "no close",
      "r" + Close("think") + " \n stray" + Open("response") + "x" + kTurnEnd,
      "r<|close|><|sep|>" + Open("response") + "x<|close|><|sep|>" + kTurnEnd};
  for (const std::string& turn : turns) {
    Ids bytewise;
    for (const TokenId id : Encoded(turn)) {
      if (id >= SmallTokenizer().first_special_id()) {
        bytewise.push_back(id);
        continue;
      }
      for (const char c : SmallTokenizer().TokenBytes(id)) {
        bytewise.push_back(static_cast<TokenId>((static_cast<unsigned char>(c) + 223) % 256));
      }
    }
    EXPECT_EQ(Summary(Parse(bytewise)), Thinking(turn)) << turn;
    EXPECT_THAT(Thinking(turn), Not(HasSubstr("<|")));
  }
}

TEST(ChatParser, RandomTurnsGiveValidTextAndParsableCalls) {
  std::mt19937 random(23);
  const std::vector<std::string> fragments = {"<|open|>",
                                              "<|close|>",
                                              "<|sep|>",
                                              "think",
                                              "response",
                                              "tools",
                                              "call tool=\"f\"",
                                              "call",
                                              "argument key=\"k\" type=\"number\"",
                                              "argument",
                                              "json",
                                              "message",
                                              "text",
                                              " ",
                                              "12",
                                              "{",
                                              "<|end_of_msg|>",
                                              "[EOS]",
                                              "[PAD]",
                                              "é"};
  for (int round = 0; round < 5000; ++round) {
    Ids ids;
    for (size_t n = random() % 30; n > 0; --n) {
      ids = ids + Encoded(fragments[random() % (round % 3 == 0 ? 16 : fragments.size())]);
      if (random() % 10 == 0) ids.push_back(static_cast<TokenId>(random() % 256));
    }
    for (const Channel start : {Channel::kThink, Channel::kResponse, Channel::kNone}) {
      const ParsedTurn turn = Parse(ids, start);
      ASSERT_TRUE(IsValidUtf8(turn.reasoning + turn.content));
      for (const ToolCall& call : turn.tool_calls) ASSERT_TRUE(IsValidUtf8(call.arguments));
      const Ids complete = ChatParser::CompleteTurn(SmallTokenizer(), ids, start);
      ASSERT_EQ(complete.back(), SmallTokenizer().control_tokens().end_of_message);
      const ParsedTurn again = Parse(complete, start);
      ASSERT_NE(again.finish_reason, FinishReason::kLength);
      ASSERT_EQ(again.reasoning, turn.reasoning);
      ASSERT_EQ(again.tool_calls.size(), turn.tool_calls.size());
    }
  }
}

std::string Completed(const std::string& text, Channel start = Channel::kThink) {
  return SmallTokenizer().Decode(ChatParser::CompleteTurn(SmallTokenizer(), Encoded(text), start));
}

TEST(CompleteTurn, AWholeTurnStaysAsItIs) {
  const std::string turn = "r" + kToResponse + "x" + Close("response") + kTurnEnd;
  EXPECT_EQ(Completed(turn), turn);
  EXPECT_EQ(Completed("r" + kToResponse + "x" + Close("response") + Close("message") + "[EOS]"),
            turn);
  EXPECT_EQ(Completed(turn + "beyond"), turn);
}

TEST(CompleteTurn, WhatIsOpenIsClosed) {
  EXPECT_EQ(Completed("r"), "r" + Close("think") + kTurnEnd);
  EXPECT_EQ(Completed("r[EOS]"), "r" + Close("think") + kTurnEnd);
  EXPECT_EQ(Completed("x<|end_of_msg|>", Channel::kResponse), "x" + Close("response") + kTurnEnd);
  EXPECT_EQ(Completed("r" + Close("think")), "r" + Close("think") + kTurnEnd);
  const std::string calls = "r" + Close("think") + Open("tools") + Call("f", "");
  EXPECT_EQ(Completed(calls), calls + Close("tools") + kTurnEnd);
}

TEST(CompleteTurn, UnfinishedTagsAndCallsAreCutOff) {
  EXPECT_EQ(Completed("x<|close|>resp", Channel::kResponse), "x" + Close("response") + kTurnEnd);
  const std::string calls = "r" + Close("think") + Open("tools") + Call("f", "");
  EXPECT_EQ(Completed(calls + Open("call tool=\"g\"") + Open("argument key=\"a\"") + "half"),
            calls + Close("tools") + kTurnEnd);
  EXPECT_EQ(Completed("r" + Close("think") + Open("tools") + Open("call tool=\"g\"")),
            "r" + Close("think") + kTurnEnd);
}

TEST(FinishReasonName, IsWhatTheApiCallsIt) {
  EXPECT_EQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_EQ(FinishReasonName(FinishReason::kToolCalls), "tool_calls");
  EXPECT_EQ(FinishReasonName(FinishReason::kLength), "length");
}

}  // namespace
}  // namespace kimi_k3
