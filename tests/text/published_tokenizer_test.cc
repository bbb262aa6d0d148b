// The published vocabulary against the ids of the vendor's tokenizer.
#include <ctime>

#include "kimi_k3/utf8.h"
#include "text/text_test_support.h"

namespace kimi_k3 {
namespace {

using nlohmann::ordered_json;

std::vector<TokenId> IdsOf(const ordered_json& array) { return array.get<std::vector<TokenId>>(); }

SpecialText ModeOf(const ordered_json& entry) {
  return entry.at("allow_special").get<bool>() ? SpecialText::kRecognised : SpecialText::kPlain;
}

std::string BytesFromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST(PublishedTokenizer, EveryCaseGivesTheVendorsIdsAndDecodesBack) {
  SKIP_WITHOUT_SHARED_DATA();
  const ordered_json cases = ReadSharedJson("tokenizer_cases.json").at("cases");
  ASSERT_FALSE(cases.empty());
  for (const ordered_json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const std::string text = entry.at("text");
    EXPECT_EQ(RealTokenizer().Encode(text, ModeOf(entry)), IdsOf(entry.at("ids")));
    EXPECT_EQ(RealTokenizer().Decode(IdsOf(entry.at("ids"))), text);
    if (!entry.contains("pieces")) continue;
    std::vector<std::string> pieces;
    for (const std::string_view piece : Tokenizer::Split(text)) pieces.emplace_back(piece);
    EXPECT_EQ(pieces, entry.at("pieces").get<std::vector<std::string>>());
  }
}

TEST(PublishedTokenizer, LongRunsAreCutWhereTheVendorCutsThem) {
  SKIP_WITHOUT_SHARED_DATA();
  const ordered_json cases = ReadSharedJson("tokenizer_cases.json").at("long_cases");
  ASSERT_FALSE(cases.empty());
  for (const ordered_json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    std::string text;
    for (const ordered_json& part : entry.at("parts")) {
      text += Repeat(part.at(0).get<std::string>(), part.at(1).get<size_t>());
    }
    const std::vector<TokenId> ids = RealTokenizer().Encode(text, ModeOf(entry));
    EXPECT_EQ(ids.size(), entry.at("num_ids").get<size_t>());
    const std::vector<TokenId> first = IdsOf(entry.at("first_ids"));
    const std::vector<TokenId> last = IdsOf(entry.at("last_ids"));
    ASSERT_GE(ids.size(), last.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), ids.begin()));
    EXPECT_TRUE(std::equal(last.rbegin(), last.rend(), ids.rbegin()));
    EXPECT_EQ(RealTokenizer().Decode(ids), text);
  }
}

TEST(PublishedTokenizer, IllFormedBytesBecomeReplacementCharacters) {
  SKIP_WITHOUT_SHARED_DATA();
  const ordered_json cases =
      ReadSharedJson("tokenizer_cases.json").at("invalid_utf8_policy").at("cases");
  ASSERT_FALSE(cases.empty());
  for (const ordered_json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const std::string bytes = BytesFromHex(entry.at("bytes_hex"));
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), entry.at("replaced_text").get<std::string>());
    EXPECT_EQ(RealTokenizer().Encode(bytes, SpecialText::kPlain), IdsOf(entry.at("ids")));
  }
}

TEST(PublishedTokenizer, DecodesToTheBytesOfTheCases) {
  SKIP_WITHOUT_SHARED_DATA();
  const ordered_json cases = ReadSharedJson("tokenizer_cases.json").at("decode_cases");
  ASSERT_FALSE(cases.empty());
  for (const ordered_json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const std::string bytes = RealTokenizer().Decode(IdsOf(entry.at("ids")));
    EXPECT_EQ(bytes, BytesFromHex(entry.at("bytes_hex")));
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), entry.at("text").get<std::string>());
  }
}

TEST(PublishedTokenizer, NamedSpecialTokensKeepTheirOwnNumbers) {
  SKIP_WITHOUT_SHARED_DATA();
  const Tokenizer& tokenizer = RealTokenizer();
  const ordered_json named = ReadSharedJson("tokenizer_config.json").at("added_tokens_decoder");
  for (const auto& [id_text, entry] : named.items()) {
    const std::vector<TokenId> id = {std::stoi(id_text)};
    const std::string name = entry.at("content");
    EXPECT_EQ(tokenizer.Encode(name, SpecialText::kRecognised), id) << name;
    EXPECT_EQ(tokenizer.Decode(id), name);
  }
  EXPECT_EQ(tokenizer.vocab_size(), 163840);
  EXPECT_EQ(tokenizer.first_special_id(), 163584);
  EXPECT_EQ(tokenizer.FindSpecial("<|reserved_token_163592|>"), 163592);
  EXPECT_EQ(tokenizer.FindSpecial("<|reserved_token_163586|>"), std::nullopt);
  EXPECT_EQ(tokenizer.StopTokens(), (std::vector<TokenId>{163586, 163585, 163593}));
}

TEST(PublishedTokenizer, EveryTokenDecodesAndEncodesToItself) {
  SKIP_WITHOUT_SHARED_DATA();
  const Tokenizer& tokenizer = RealTokenizer();
  size_t whole = 0;
  for (TokenId id = 0; id < tokenizer.first_special_id(); ++id) {
    const std::string bytes(tokenizer.TokenBytes(id));
    if (!IsValidUtf8(bytes) || Tokenizer::Split(bytes).size() != 1) continue;
    ++whole;
    ASSERT_EQ(tokenizer.Encode(bytes, SpecialText::kPlain), std::vector<TokenId>{id});
  }
  EXPECT_GT(whole, 150'000U);
}

TEST(PublishedTokenizer, AnUnbrokenMegabyteIsEncodedInNearLinearTime) {
  SKIP_WITHOUT_SHARED_DATA();
  const std::string_view base64 =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string letters;
  std::string base64_text;
  uint32_t state = 1;
  while (base64_text.size() < (1U << 20)) {
    state = state * 1664525U + 1013904223U;
    letters += base64[(state >> 16) % 52];
    base64_text += base64[state >> 26];
  }
  const std::vector<std::string> texts = {Repeat("a", 1'000'000),
                                          Repeat("^", 1'000'000),
                                          Repeat(" ", 1'000'000),
                                          Repeat("\n", 1'000'000),
                                          Repeat("_", 1'000'000),
                                          Repeat("\xE4\xB8\xAD", 350'000),
                                          Repeat("<", 1'000'000),
                                          Repeat("<|reserved_token_", 60'000),
                                          letters,
                                          base64_text};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 20));
    const std::clock_t start = std::clock();
    const std::vector<TokenId> ids = RealTokenizer().Encode(text, SpecialText::kRecognised);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 60.0);  // quadratic work would take many minutes
    EXPECT_EQ(RealTokenizer().Decode(ids), text);
    RecordProperty("milliseconds", static_cast<int>(1000 * seconds));
  }
}

}  // namespace
}  // namespace kimi_k3
