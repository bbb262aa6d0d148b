// Headers from untrusted files: every number is checked before it is used.
#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace kimi_k3 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Visit {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin;
  uint64_t end;
};

struct Result {
  bool whole = false;
  std::vector<Visit> visits;
  std::string problems;
};

Result Parse(std::string_view text, uint64_t data_bytes) {
  SafetensorsHeaderParser parser;
  std::ranges::copy(text, parser.Buffer(text.size()).begin());
  ProblemList problems(1000);
  Result result;
  result.whole = parser.Parse(data_bytes, "x.safetensors", problems, [&](const HeaderTensor& t) {
    result.visits.push_back({std::string(t.name),
                             std::string(t.dtype),
                             {t.shape.begin(), t.shape.end()},
                             t.begin,
                             t.end});
  });
  result.problems = problems.Text();
  return result;
}

std::string ProblemsOf(std::string_view text, uint64_t data_bytes) {
  return Parse(text, data_bytes).problems;
}

// A header with one tensor, given as the JSON of its fields.
std::string One(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"w":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

TEST(SafetensorsHeader, VisitsTensorsInFileOrder) {
  const Result result = Parse(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}})",
      16);
  EXPECT_EQ(result.problems, "");
  EXPECT_TRUE(result.whole);
  ASSERT_EQ(result.visits.size(), 2U);
  EXPECT_EQ(result.visits[0].name, "b");
  EXPECT_EQ(result.visits[0].dtype, "BF16");
  EXPECT_THAT(result.visits[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(result.visits[0].begin, 4U);
  EXPECT_EQ(result.visits[0].end, 16U);
  EXPECT_TRUE(result.visits[1].shape.empty());
}

TEST(SafetensorsHeader, OffsetsMustBeWholeNumbersInOrderInsideTheData) {
  const char* const offsets[] = {"[1099511627776,1099511627792]",
                                 "[-16,0]",
                                 "[16,0]",
                                 "[0.5,16.5]",
                                 "[1e3,2e3]",
                                 "[\"0\",\"16\"]",
                                 "[0]",
                                 "[0,8,16]",
                                 "[]",
                                 "null",
                                 "16",
                                 "[0,18446744073709551608]",
                                 "[18446744073709551608,18446744073709551615]",
                                 "[0,18446744073709551632]",
                                 "[0,17]",
                                 "[true,16]",
                                 "[[0],16]"};
  for (const char* text : offsets) {
    EXPECT_THAT(ProblemsOf(One("\"BF16\"", "[8]", text), 16), HasSubstr("tensor w: ")) << text;
  }
  EXPECT_EQ(ProblemsOf(One("\"BF16\"", "[8]", "[0,16]"), 16), "");
}

TEST(SafetensorsHeader, ShapesMustNotOverflow) {
  const std::string many_ones = fmt::format("[{}]", fmt::join(std::vector<int>(300, 1), ","));
  const std::string shapes[] = {"[4294967296,4294967296]",
                                "[9223372036854775808]",
                                "[0,9223372036854775808,9223372036854775808]",
                                "[-1,4]",
                                "[1.0]",
                                "[8.0]",
                                "[\"8\"]",
                                "[null]",
                                "null",
                                "8",
                                "[4294967296,4294967297]",
                                "[9223372036854775812]",
                                many_ones};
  for (const std::string& shape : shapes) {
    const Result result = Parse(One("\"BF16\"", shape, "[0,8]"), 8);
    EXPECT_THAT(result.problems, HasSubstr("tensor w: ")) << shape;
    EXPECT_TRUE(result.visits.empty()) << shape;
  }
}

TEST(SafetensorsHeader, ShapeAndDtypeMustFillTheRangeExactly) {
  EXPECT_THAT(ProblemsOf(One("\"F32\"", "[1000,1000]", "[0,4]"), 4),
              HasSubstr("F32 [1000, 1000] needs 4000000 bytes, but its data_offsets span 4"));
  EXPECT_THAT(ProblemsOf(One("\"F32\"", "[1]", "[0,8]"), 8), HasSubstr("needs 4 bytes"));
  EXPECT_EQ(ProblemsOf(One("\"F32\"", "[]", "[0,4]"), 4), "");
  EXPECT_EQ(ProblemsOf(One("\"F32\"", "[0,5]", "[0,0]"), 0), "");
  EXPECT_EQ(ProblemsOf(One("\"F4\"", "[3]", "[0,2]"), 2), "");
}

TEST(SafetensorsHeader, UnknownDtypesSkipNoRangeCheck) {
  for (const char* dtype : {"\"F4X\"", "\"f32\"", "\"\""}) {
    EXPECT_EQ(ProblemsOf(One(dtype, "[8]", "[0,16]"), 16), "") << dtype;
    EXPECT_THAT(ProblemsOf(One(dtype, "[8]", "[0,18446744073709551608]"), 16),
                HasSubstr("do not lie in order"));
    EXPECT_THAT(ProblemsOf(One(dtype, "[8]", "[16,0]"), 16), HasSubstr("do not lie in order"));
  }
  EXPECT_THAT(ProblemsOf(One("5", "[8]", "[0,16]"), 16), HasSubstr("dtype is not a string"));
  EXPECT_THAT(ProblemsOf(One("null", "[8]", "[0,16]"), 16), HasSubstr("dtype is not a string"));
}

TEST(SafetensorsHeader, RepeatedNamesAreToldInAnySpelling) {
  constexpr std::string_view kFirst = R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  constexpr std::string_view kSecond = R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})";
  EXPECT_THAT(ProblemsOf(fmt::format("{{{},\"w\":{}}}", kFirst, kSecond), 8),
              HasSubstr("tensor w: its name is repeated"));
  EXPECT_THAT(ProblemsOf(fmt::format("{{{},\"\\u0077\":{}}}", kFirst, kSecond), 8),
              HasSubstr("tensor w: its name is repeated"));
  EXPECT_THAT(ProblemsOf(R"({"__metadata__":{},"__metadata__":{}})", 0),
              HasSubstr("__metadata__ twice"));
  EXPECT_THAT(
      ProblemsOf(R"({"w":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
      HasSubstr("dtype twice"));
  EXPECT_THAT(ProblemsOf(R"({"w":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}})", 4),
              HasSubstr("shape twice"));
}

std::string Two(std::string_view a, std::string_view b) {
  return fmt::format(
      R"({{"k":{{"dtype":"U8","shape":[8],"data_offsets":{}}},"v":{{"dtype":"U8","shape":[8],)"
      R"("data_offsets":{}}}}})",
      a, b);
}

TEST(SafetensorsHeader, TensorsMustTileTheData) {
  EXPECT_EQ(ProblemsOf(Two("[0,8]", "[8,16]"), 16), "");
  EXPECT_EQ(ProblemsOf(Two("[8,16]", "[0,8]"), 16), "");
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[0,8]"), 8), HasSubstr("overlap by 8 bytes"));
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[6,14]"), 14),
              HasSubstr("tensors k and v overlap by 2 bytes"));
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[24,32]"), 32),
              HasSubstr("16 bytes between k and tensor v belong to no tensor"));
  EXPECT_THAT(ProblemsOf(Two("[4,12]", "[12,20]"), 20), HasSubstr("4 bytes between the header"));
}

TEST(SafetensorsHeader, AFileThatWasCutShortIsToldOfInOneLine) {
  const std::string text = Two("[0,8]", "[8,16]");
  for (uint64_t data_bytes = 0; data_bytes < 16; ++data_bytes) {
    const Result result = Parse(text, data_bytes);
    EXPECT_FALSE(result.whole);
    EXPECT_EQ(result.problems,
              fmt::format("x.safetensors: has {} bytes, its header describes {}: cut short by {}; "
                          "fetch this file again (kimi_k3 pull leaves those that are whole)",
                          8 + text.size() + data_bytes, 8 + text.size() + 16, 16 - data_bytes));
    EXPECT_EQ(result.visits.size(), data_bytes / 8);
  }
}

TEST(SafetensorsHeader, AFileThatIsTooLongIsToldOfInOneLine) {
  const std::string text = Two("[0,8]", "[8,16]");
  const Result result = Parse(text, 17);
  EXPECT_TRUE(result.whole);
  EXPECT_EQ(result.problems,
            fmt::format("x.safetensors: has {} bytes, its header describes {}: too long by 1; "
                        "fetch this file again",
                        8 + text.size() + 17, 8 + text.size() + 16));
  EXPECT_THAT(ProblemsOf("{}", 4), HasSubstr("too long by 4"));
}

// Where the offsets themselves are wrong the size of the file is not to blame.
TEST(SafetensorsHeader, WrongOffsetsAreNotTakenForACutFile) {
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[6,14]"), 10),
              AllOf(HasSubstr("tensor v: its data_offsets [6, 14] do not lie in order within the "
                              "10 bytes of data"),
                    Not(HasSubstr("cut short"))));
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[9,17]"), 16), Not(HasSubstr("cut short")));
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[8,17]"), 16),
              AllOf(HasSubstr("tensor v: U8 [8] needs 8 bytes"), Not(HasSubstr("cut short"))));
  EXPECT_THAT(ProblemsOf(Two("[0,8]", "[6,14]"), 20),
              AllOf(HasSubstr("overlap by 2 bytes"),
                    HasSubstr("6 bytes at the end of the file belong to no tensor")));
  // No file is that large.
  EXPECT_THAT(ProblemsOf(One("\"U8\"", "[18446744073709551615]", "[0,18446744073709551615]"), 16),
              HasSubstr("do not lie in order"));
}

TEST(SafetensorsHeader, TellsOfHolesThatAreMeant) {
  SafetensorsHeaderParser parser;
  ProblemList problems;
  for (const bool meant : {true, false}) {
    const std::string text =
        fmt::format(R"({{"__metadata__":{{"format":"pt","{}":"{}"}}}})",
                    meant ? std::string(kMadeByKey) : "format2", std::string(kMadeOfHoles));
    std::ranges::copy(text, parser.Buffer(text.size()).begin());
    parser.Parse(0, "x", problems, [](const HeaderTensor&) {});
    EXPECT_EQ(parser.made_of_holes(), meant);
  }
  EXPECT_TRUE(problems.empty()) << problems.Text();
}

TEST(SafetensorsHeader, WhiteSpaceMayPadTheEndAndNothingElse) {
  const std::string text = One("\"U8\"", "[4]", "[0,4]");
  for (const char* padding : {" ", "    ", "\n", "\t\r\n "}) {
    EXPECT_EQ(ProblemsOf(text + padding, 4), "");
  }
  EXPECT_THAT(ProblemsOf(text + std::string(3, '\0'), 4), HasSubstr("padded with NUL"));
  EXPECT_THAT(ProblemsOf(" " + text, 4), HasSubstr("does not begin with {"));
  EXPECT_THAT(ProblemsOf("\xef\xbb\xbf" + text, 4), HasSubstr("byte order mark"));
  EXPECT_NE(ProblemsOf(text + "x", 4), "");
  EXPECT_NE(ProblemsOf(text + "{}", 4), "");
  EXPECT_NE(ProblemsOf(text + "}", 4), "");
  EXPECT_NE(ProblemsOf(text + ",", 4), "");
}

TEST(SafetensorsHeader, EmptyAndForeignTextsAreRefused) {
  for (const std::string_view text :
       {"", " ", "[]", "null", "{", "{\"w\"", "{\"w\":}", "{\"w\":1}", "{\"w\":[]}", "{\"w\":{}}",
        "{1:2}", "{\"a\":{},}", "{\"w\":{\"dtype\":\"U8\",\"shape\":[4]}}",
        "{\"w\":{\"dtype\":\"U8\" \"shape\":[4]}}", "{\"__metadata__\":5}",
        "{\"__metadata__\":{\"a\":1}}", "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}"}) {
    EXPECT_NE(ProblemsOf(text, 4), "") << text;
  }
  EXPECT_EQ(ProblemsOf("{}", 0), "");
  EXPECT_THAT(ProblemsOf(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"alias":"v"}})", 4),
              HasSubstr("unknown field \"alias\""));
}

TEST(SafetensorsHeader, DeepNestingIsRefused) {
  EXPECT_NE(ProblemsOf("{\"w\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 4),
            "");
}

TEST(SafetensorsHeader, EveryTruncationIsSeen) {
  const std::string whole = Two("[0,8]", "[8,16]");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(ProblemsOf(whole.substr(0, length), 16), "") << length;
  }
}

// Whatever the bytes, a visited tensor lies inside the data and has the size of its shape.
TEST(SafetensorsHeader, RandomDamageNeverYieldsARangeOutsideTheData) {
  const std::string whole =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,4],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})";
  constexpr uint64_t kDataBytes = 32;
  std::mt19937_64 random(20240229);
  SafetensorsHeaderParser parser;
  constexpr std::string_view kInteresting = "{}[]\",:0123456789eE.-+\\\0 \xff\xef";
  for (int round = 0; round < 50'000; ++round) {
    std::string text = whole;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      char& at = text[random() % text.size()];
      at = random() % 2 == 0 ? kInteresting[random() % kInteresting.size()]
                             : static_cast<char>(random());
    }
    if (random() % 8 == 0) text.resize(random() % text.size());
    std::ranges::copy(text, parser.Buffer(text.size()).begin());
    ProblemList problems;
    parser.Parse(kDataBytes, "x", problems, [&](const HeaderTensor& tensor) {
      ASSERT_LE(tensor.begin, tensor.end);
      ASSERT_LE(tensor.end, kDataBytes);
      ASSERT_LE(tensor.shape.size(), kTensorRankLimit);
    });
  }
}

TEST(SafetensorsHeader, BuffersServeOneTextAfterAnother) {
  SafetensorsHeaderParser parser;
  for (const size_t padding : {size_t{0}, size_t{100'000}, size_t{10}}) {
    const std::string text = One("\"U8\"", "[4]", "[0,4]") + std::string(padding, ' ');
    std::ranges::copy(text, parser.Buffer(text.size()).begin());
    ProblemList problems;
    EXPECT_TRUE(parser.Parse(4, "x", problems, [](const HeaderTensor&) {}));
    EXPECT_TRUE(problems.empty()) << problems.Text();
  }
}

}  // namespace
}  // namespace kimi_k3
