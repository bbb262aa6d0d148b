// The tokenizer as a whole, on the vocabulary in the repository.
#include "kimi_k3/tokenizer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <random>

#include "kimi_k3/utf8.h"
#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using Ids = std::vector<TokenId>;

// A folder that is removed again.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("text_" + std::to_string(std::random_device()()))) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  void Write(const std::string& name, const std::string& contents) const {
    std::ofstream(path_ / name, std::ios::binary) << contents;
  }

 private:
  std::filesystem::path path_;
};

std::string SmallRanks() { return ReadText(SmallFolder() / "tiktoken.model"); }
std::string SmallConfig() { return ReadText(SmallFolder() / "tokenizer_config.json"); }

std::string LoadRefusal(const std::string& ranks, const std::string& config,
                        std::optional<TokenId> vocab_size = std::nullopt) {
  const Error error =
      ErrorOf([&] { Tokenizer::FromFileContents(ranks, config, "folder", vocab_size); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  return error.what();
}

TEST(Tokenizer, NeedsNoOtherFileThanItsTwo) {
  const TemporaryFolder folder;
  folder.Write("tiktoken.model", SmallRanks());
  folder.Write("tokenizer_config.json", SmallConfig());
  EXPECT_EQ(Tokenizer::Load(folder.path()).vocab_size(), 788);
}

TEST(Tokenizer, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json", SmallConfig());
  const Error error = ErrorOf([&] { Tokenizer::Load(folder.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_THAT(error.what(), HasSubstr("tiktoken.model"));
  EXPECT_THAT(error.what(), HasSubstr("Kimi K3"));
}

TEST(Tokenizer, SpecialIdsDoNotShiftAfterAGap) {
  const Tokenizer& tokenizer = SmallTokenizer();
  EXPECT_EQ(tokenizer.first_special_id(), 756);
  EXPECT_EQ(tokenizer.FindSpecial("[BOS]"), 756);
  EXPECT_EQ(tokenizer.FindSpecial("[EOT]"), 765);
  EXPECT_EQ(tokenizer.FindSpecial("<|media_pad|>"), 777);
  EXPECT_EQ(tokenizer.FindSpecial("[PAD]"), 787);
  EXPECT_EQ(tokenizer.FindSpecial("<|reserved_token_762|>"), 762);
  EXPECT_EQ(tokenizer.FindSpecial("<|im_end|>"), std::nullopt);
  for (TokenId id = tokenizer.first_special_id(); id < tokenizer.vocab_size(); ++id) {
    const std::string name(tokenizer.TokenBytes(id));
    EXPECT_EQ(tokenizer.Encode(name, SpecialText::kRecognised), Ids{id});
    const Ids plain = tokenizer.Encode(name, SpecialText::kPlain);
    EXPECT_GT(plain.size(), 1U);
    for (const TokenId part : plain) EXPECT_LT(part, tokenizer.first_special_id());
    EXPECT_EQ(tokenizer.Decode(plain), name);
  }
}

TEST(Tokenizer, TheFirst256SmallIdsAreNotTheBytes) {
  EXPECT_EQ(SmallTokenizer().Encode("!", SpecialText::kPlain), Ids{0});
  EXPECT_EQ(SmallTokenizer().Encode(std::string(1, '\0'), SpecialText::kPlain), Ids{223});
}

TEST(Tokenizer, KnownTextHasKnownIds) {
  const Tokenizer& tokenizer = SmallTokenizer();
  const auto id = [&](std::string_view token) {
    for (TokenId i = 0; i < tokenizer.first_special_id(); ++i) {
      if (tokenizer.TokenBytes(i) == token) return i;
    }
    ADD_FAILURE() << "no token " << token;
    return -1;
  };
  EXPECT_EQ(tokenizer.Encode("The weather in the city", SpecialText::kPlain),
            (Ids{id("The"), id(" weather"), id(" in"), id(" the"), id(" city")}));
  EXPECT_EQ(tokenizer.Encode("isn't 18.\n", SpecialText::kPlain),
            (Ids{id("i"), id("s"), id("n't"), id(" "), id("18"), id(".\n")}));
  EXPECT_EQ(tokenizer.Encode("北京世界，", SpecialText::kPlain),
            (Ids{id("北京"), id("世界"), id("，")}));
  EXPECT_EQ(tokenizer.Encode("", SpecialText::kRecognised), Ids{});
}

TEST(Tokenizer, SpecialsAreFoundRightAfterAnything) {
  const Tokenizer& tokenizer = SmallTokenizer();
  for (const char* before : {".", ")", ">", "7", "中", "\n", " ", "<", "<|", "a"}) {
    Ids expected = tokenizer.Encode(before, SpecialText::kPlain);
    expected.push_back(tokenizer.control_tokens().close);
    EXPECT_EQ(tokenizer.Encode(std::string(before) + "<|close|>", SpecialText::kRecognised),
              expected)
        << before;
  }
}

TEST(Tokenizer, WhiteSpaceBeforeASpecialEndsTheText) {
  const Tokenizer& tokenizer = SmallTokenizer();
  const Ids ids = tokenizer.Encode("a  <|sep|>b", SpecialText::kRecognised);
  Ids expected = tokenizer.Encode("a  ", SpecialText::kPlain);
  expected.push_back(tokenizer.control_tokens().sep);
  expected.push_back(tokenizer.Encode("b", SpecialText::kPlain).at(0));
  EXPECT_EQ(ids, expected);
}

TEST(Tokenizer, ASpecialNameAcrossACutIsText) {
  const Tokenizer& tokenizer = SmallTokenizer();
  const auto has_special = [&](size_t letters) {
    const Ids ids = tokenizer.Encode(Repeat("a", letters) + "[BOS]b", SpecialText::kRecognised);
    return std::find(ids.begin(), ids.end(), 756) != ids.end();
  };
  EXPECT_TRUE(has_special(24'995));
  EXPECT_FALSE(has_special(24'996));
  EXPECT_FALSE(has_special(24'999));
  EXPECT_TRUE(has_special(25'000));
}

TEST(Tokenizer, StopTokensAreThoseThatExist) {
  EXPECT_EQ(SmallTokenizer().StopTokens(), (Ids{758, 757, 765}));
  const std::string config =
      R"({"added_tokens_decoder": {"756": {"content": "<|end_of_msg|>"},
          "757": {"content": "<|open|>"}, "758": {"content": "<|close|>"},
          "759": {"content": "<|sep|>"}}})";
  const Tokenizer tokenizer = Tokenizer::FromFileContents(SmallRanks(), config, "f");
  EXPECT_EQ(tokenizer.StopTokens(), Ids{756});
  EXPECT_EQ(tokenizer.vocab_size(), 760);
}

TEST(Tokenizer, TheModelsVocabularyMayHaveMoreReservedIds) {
  const Tokenizer tokenizer = Tokenizer::FromFileContents(SmallRanks(), SmallConfig(), "f", 1024);
  EXPECT_EQ(tokenizer.vocab_size(), 1024);
  EXPECT_EQ(tokenizer.TokenBytes(1023), "<|reserved_token_1023|>");
  EXPECT_THAT(LoadRefusal(SmallRanks(), SmallConfig(), 787), HasSubstr("787"));
  EXPECT_THAT(LoadRefusal(SmallRanks(), SmallConfig(), 2'000'000'000), HasSubstr("2000000000"));
  EXPECT_THAT(LoadRefusal(SmallRanks(), SmallConfig(), -1), HasSubstr("-1"));
}

TEST(Tokenizer, FilesThatDoNotBelongTogetherAreRefused) {
  // A rank file that ends too early, by lines: the reserved block would be too long.
  std::string config = SmallConfig();
  config.replace(config.find("\"787\""), 5, "\"1012\"");
  EXPECT_THAT(LoadRefusal(SmallRanks(), config), HasSubstr("is that file complete?"));
  // A rank file that is too long.
  EXPECT_THAT(LoadRefusal(SmallRanks() + "eHl6enk= 756\n", SmallConfig()),
              HasSubstr("gives to an ordinary token"));
  config = SmallConfig();
  config.replace(config.find("[PAD]"), 5, "<|reserved_token_770|>");
  EXPECT_THAT(LoadRefusal(SmallRanks(), config), HasSubstr("reserved name"));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefused) {
  for (const TokenId id : {-1, 788, 163840, std::numeric_limits<TokenId>::max(),
                           std::numeric_limits<TokenId>::min()}) {
    const Ids ids = {0, id};
    EXPECT_EQ(ErrorOf([&] { SmallTokenizer().Decode(ids); }).kind(), ErrorKind::kUsage) << id;
  }
}

TEST(Tokenizer, AnyBytesAreEncoded) {
  const Tokenizer& tokenizer = SmallTokenizer();
  for (const std::string& bytes :
       {std::string("\xE6\xAD"), std::string("\xFF\xFE"), std::string("\xC0\x80"),
        std::string("\xED\xA0\x80"), std::string("\xF5\x80\x80\x80"), std::string("a\0b", 3),
        std::string("\xEF\xBB\xBFx"), std::string("a\r\nb"), std::string("\n"), std::string()}) {
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(bytes, SpecialText::kPlain)),
              ReplaceInvalidUtf8(bytes));
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(bytes, SpecialText::kRecognised)),
              ReplaceInvalidUtf8(bytes));
  }
}

TEST(Tokenizer, RandomTextDecodesToItself) {
  std::mt19937 random(13);
  const std::vector<std::string> fragments = {
      "the",  " weather", "\n",        "  ",       "\t",    "7",   "12345", "中",
      "世界", "😀",        "e\xCC\x81", "<|open|>", "[EOS]", "<|",  "'s",    "'RE",
      ".",    "!!",       "\r\n",      "\xC2\xA0", "\x1C",  "=\"", "Ab",    "ß"};
  const Tokenizer& tokenizer = SmallTokenizer();
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += fragments[random() % fragments.size()];
    for (const SpecialText mode : {SpecialText::kPlain, SpecialText::kRecognised}) {
      const Ids ids = tokenizer.Encode(text, mode);
      ASSERT_EQ(tokenizer.Decode(ids), text);
      for (const TokenId id : ids) {
        ASSERT_LT(id, mode == SpecialText::kPlain ? tokenizer.first_special_id()
                                                  : tokenizer.vocab_size());
      }
    }
    std::string pieces;
    for (const std::string_view piece : Tokenizer::Split(text)) pieces += piece;
    ASSERT_EQ(pieces, text);
  }
}

TEST(Tokenizer, EncodesLongRunsInNearLinearTime) {
  for (const char* unit : {"a", "^", " ", "\n", "_", "中", "<", "<|reserved_token_", "ab1 "}) {
    const std::string text = Repeat(unit, 1'000'000 / std::string_view(unit).size());
    const std::clock_t start = std::clock();
    const Ids ids = SmallTokenizer().Encode(text, SpecialText::kRecognised);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_EQ(SmallTokenizer().Decode(ids), text);
    EXPECT_LT(seconds, 60.0) << unit;  // quadratic work would take many minutes
  }
}

TEST(Tokenizer, DamagedFilesAreRefusedNotFollowed) {
  std::mt19937 random(17);
  const std::string ranks = SmallRanks();
  const std::string config = SmallConfig();
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged_ranks = ranks;
    std::string damaged_config = config;
    std::string& target = round % 2 == 0 ? damaged_ranks : damaged_config;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      target[random() % target.size()] = static_cast<char>(random());
    }
    try {
      const Tokenizer tokenizer = Tokenizer::FromFileContents(damaged_ranks, damaged_config, "f");
      ASSERT_EQ(tokenizer.Decode(tokenizer.Encode("the weather", SpecialText::kPlain)),
                "the weather");
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCheckpoint);
      ++refused;
    }
  }
  EXPECT_GT(refused, 250);
}

TEST(Tokenizer, CanBeMoved) {
  Tokenizer first = Tokenizer::Load(SmallFolder());
  const Tokenizer second = std::move(first);
  EXPECT_EQ(second.Encode("!", SpecialText::kPlain), Ids{0});
}

TEST(Tokenizer, WhatStandsInAFilesPlaceIsSaid) {
  namespace fs = std::filesystem;
  const auto refusal = [](const fs::path& folder) -> std::string {
    const Error error = ErrorOf([&] { Tokenizer::Load(folder); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return error.what();
  };
  const TemporaryFolder folder;
  folder.Write("tiktoken.model", SmallRanks());
  const fs::path config = folder.path() / "tokenizer_config.json";
  EXPECT_THAT(refusal(folder.path()), HasSubstr("not found"));
  fs::create_symlink(config, config);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("leads back to itself"));
  fs::remove(config);
  fs::create_symlink(folder.path() / "gone", config);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("a link to a file that is not there"));
  fs::remove(config);
  fs::create_symlink("/dev/null", config);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("a device"));
  fs::remove(config);
  fs::create_directory(config);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("a folder, not a file"));
  fs::remove(config);
  folder.Write("tokenizer_config.json",
               "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("git-lfs pointer"));
  EXPECT_THAT(refusal(folder.path() / "none"), HasSubstr("none: does not exist"));
  EXPECT_THAT(refusal(folder.path() / "tiktoken.model"), HasSubstr("is no folder"));
}

}  // namespace
}  // namespace kimi_k3
