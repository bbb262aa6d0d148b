// The index is read in pieces, and a bad one is refused in words.
#include "checkpoint/index_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Pair;
using Pairs = std::vector<std::pair<std::string, std::string>>;

class IndexReaderTest : public testing::Test {
 protected:
  Pairs Read(std::string_view text) {
    WriteFile(path(), text);
    Pairs pairs;
    ReadTensorIndex(path(), [&](std::string_view name, std::string_view file) {
      pairs.emplace_back(name, file);
    });
    return pairs;
  }
  std::string RefusalOf(std::string_view text) {
    try {
      Read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_THAT(error.what(), HasSubstr(path().string()));
      return error.what();
    }
    return "";
  }
  std::filesystem::path path() const { return folder_.path() / "index.json"; }
  TemporaryFolder folder_;
};

TEST_F(IndexReaderTest, ReadsThePairsInOrder) {
  EXPECT_THAT(Read(R"({"metadata": {"total_size": 5, "x": ["]", {"y": "\"}"}]}, "n": -1.5e3,
                       "weight_map": {"b": "2", "a": "1"}, "z": true})"),
              ElementsAre(Pair("b", "2"), Pair("a", "1")));
}

TEST_F(IndexReaderTest, UnderstandsEscapes) {
  EXPECT_THAT(Read(R"({"weight_map":{"\u0077\"\\":"a\\"}})"), ElementsAre(Pair("w\"\\", "a\\")));
}

TEST_F(IndexReaderTest, PairsMayLieAcrossAnyWindowEdge) {
  // Names of all lengths up to 400 bytes move every kind of token across the edges.
  std::string text = R"({"weight_map": {)";
  Pairs wanted;
  for (size_t i = 0; i < 6000; ++i) {
    wanted.emplace_back(std::to_string(i) + std::string(i % 400, 'x') + "\\", "f");
    text += fmt::format("{}\n\"{}\\\\\": \"f\"", i == 0 ? "" : ",",
                        wanted.back().first.substr(0, wanted.back().first.size() - 1));
  }
  text += "}}";
  EXPECT_GT(text.size(), 4U * 256 * 1024);
  EXPECT_EQ(Read(text), wanted);
}

TEST_F(IndexReaderTest, RefusesWhatIsNotAnIndex) {
  EXPECT_THAT(RefusalOf(""), HasSubstr("ends too early"));
  EXPECT_THAT(RefusalOf("[]"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf("[]"), EndsWith("fetch it again"));
  EXPECT_THAT(RefusalOf("{}"), HasSubstr("missing or empty"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": {}})"), HasSubstr("missing or empty"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": {"a": 1}})"), HasSubstr("the file of a is not a string"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": {"a": "b"}, "weight_map": {"a": "c"}})"),
              HasSubstr("weight_map is repeated"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": {"a": "b"}} x)"), HasSubstr("after its closing brace"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": ["a"]})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": {"a": "b",}})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(R"({"metadata": tru e, "weight_map": {"a": "b"}})"),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(R"({"metadata": }, "weight_map": {"a": "b"}})"),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf("\xef\xbb\xbf{\"weight_map\": {\"a\": \"b\"}}"),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(R"({"weight_map": {"\q": "b"}})"), HasSubstr("not valid JSON"));
}

TEST_F(IndexReaderTest, RefusesEveryTruncation) {
  const std::string whole = R"({"metadata": {"total_size": 5}, "weight_map": {"a": "b"}})";
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(RefusalOf(whole.substr(0, length)), "") << length;
  }
}

TEST_F(IndexReaderTest, RefusesEndlessTokens) {
  EXPECT_THAT(RefusalOf("{\"weight_map\": {\"" + std::string(2'000'000, 'a') + "\": \"b\"}}"),
              HasSubstr("too long"));
  EXPECT_THAT(RefusalOf("{\"metadata\": " + std::string(2'000'000, '[')), HasSubstr("too long"));
}

TEST_F(IndexReaderTest, RecognisesALargeFilePointer) {
  EXPECT_THAT(RefusalOf("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"),
              HasSubstr("never downloaded"));
}

}  // namespace
}  // namespace kimi_k3
