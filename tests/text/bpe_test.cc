// Merging against the plain quadratic rule.
#include "text/bpe.h"

#include <random>

#include "text/rank_file.h"
#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

const Vocabulary& SmallVocabulary() {
  static const Vocabulary vocabulary =
      ParseRankFile(ReadText(SmallFolder() / "tiktoken.model"), "small");
  return vocabulary;
}

// Merges the leftmost pair of lowest rank until none is left.
std::vector<TokenId> EncodeByTheRule(const Vocabulary& vocabulary, const std::string& piece) {
  if (const auto whole = vocabulary.Find(piece)) return {*whole};
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    std::optional<size_t> best;
    TokenId best_rank = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = vocabulary.Find(parts[i] + parts[i + 1]);
      if (rank && (!best || *rank < best_rank)) {
        best = i;
        best_rank = *rank;
      }
    }
    if (!best) break;
    parts[*best] += parts[*best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& part : parts) ids.push_back(*vocabulary.Find(part));
  return ids;
}

std::vector<TokenId> Encode(const Vocabulary& vocabulary, const std::string& piece) {
  BpeMerger merger(vocabulary);
  std::vector<TokenId> ids;
  merger.Encode(piece, ids);
  return ids;
}

TEST(Bpe, AWholeTokenIsTakenAsItIs) {
  const auto id = SmallVocabulary().Find("weather");
  ASSERT_TRUE(id);
  EXPECT_EQ(Encode(SmallVocabulary(), "weather"), std::vector<TokenId>{*id});
}

TEST(Bpe, TheLowestRankWinsAndTheLeftmostOnTies) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.Append(std::string(1, static_cast<char>(byte)));
  vocabulary.Append("bc");   // 256
  vocabulary.Append("ab");   // 257
  vocabulary.Append("aa");   // 258
  vocabulary.Append("aaa");  // 259
  EXPECT_EQ(Encode(vocabulary, "abc"), (std::vector<TokenId>{'a', 256}));
  EXPECT_EQ(Encode(vocabulary, "aaaaa"), (std::vector<TokenId>{258, 259}));
  EXPECT_EQ(Encode(vocabulary, "aaab"), (std::vector<TokenId>{258, 257}));
}

TEST(Bpe, ATokenThatMergesCannotReachIsFoundOnlyAsAWhole) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.Append(std::string(1, static_cast<char>(byte)));
  vocabulary.Append("xyz");
  EXPECT_EQ(Encode(vocabulary, "xyz"), std::vector<TokenId>{256});
  EXPECT_EQ(Encode(vocabulary, "xyz!"), (std::vector<TokenId>{'x', 'y', 'z', '!'}));
}

TEST(Bpe, RandomPiecesFollowTheRule) {
  std::mt19937 random(3);
  const std::vector<std::string> fragments = {"the",  "r",  "in", "weather", "a",    "aa",
                                              " ",    "==", "世", "界",      "\xE4", "__",
                                              "tion", "é",  "s",  "\""};
  for (int round = 0; round < 3000; ++round) {
    std::string piece;
    for (size_t n = 1 + random() % 12; n > 0; --n) piece += fragments[random() % fragments.size()];
    ASSERT_EQ(Encode(SmallVocabulary(), piece), EncodeByTheRule(SmallVocabulary(), piece)) << piece;
  }
}

TEST(Bpe, RandomVocabulariesFollowTheRule) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Vocabulary vocabulary;
    for (int byte = 0; byte < 256; ++byte) {
      vocabulary.Append(std::string(1, static_cast<char>(byte)));
    }
    for (int i = 0; i < 40; ++i) {
      std::string token;
      for (size_t n = 2 + random() % 4; n > 0; --n) token += static_cast<char>('a' + random() % 3);
      vocabulary.Append(token);
    }
    for (int i = 0; i < 20; ++i) {
      std::string piece;
      for (size_t n = 1 + random() % 40; n > 0; --n) piece += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(Encode(vocabulary, piece), EncodeByTheRule(vocabulary, piece)) << piece;
    }
  }
}

TEST(Bpe, OneMergerServesManyPieces) {
  BpeMerger merger(SmallVocabulary());
  std::vector<TokenId> ids;
  merger.Encode("theatre", ids);
  merger.Encode("in", ids);
  std::vector<TokenId> expected = EncodeByTheRule(SmallVocabulary(), "theatre");
  expected.push_back(*SmallVocabulary().Find("in"));
  EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace kimi_k3::text
