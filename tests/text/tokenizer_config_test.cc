// tokenizer_config.json: names with their own ids, other families and damage refused.
#include "text/tokenizer_config.h"

#include <gmock/gmock.h>

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

using testing::HasSubstr;

constexpr std::string_view kControl =
    R"("7": {"content": "<|end_of_msg|>"}, "8": {"content": "<|open|>"},
       "9": {"content": "<|close|>"}, "12": {"content": "<|sep|>"})";

std::string Config(std::string_view more) {
  return R"({"added_tokens_decoder": {)" + std::string(kControl) + std::string(more) + "}}";
}

std::string Refusal(const std::string& json) {
  const Error error = ErrorOf([&] { ParseTokenizerConfig(json, "m/tokenizer_config.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_THAT(error.what(), HasSubstr("m/tokenizer_config.json"));
  return error.what();
}

TEST(TokenizerConfig, EachNameKeepsItsOwnNumber) {
  const auto named = ParseTokenizerConfig(Config(R"(, "3000": {"content": "[PAD]"})"), "f");
  EXPECT_EQ(named, (std::map<TokenId, std::string>{{7, "<|end_of_msg|>"},
                                                   {8, "<|open|>"},
                                                   {9, "<|close|>"},
                                                   {12, "<|sep|>"},
                                                   {3000, "[PAD]"}}));
}

TEST(TokenizerConfig, AConfigurationOfKimiK2IsRefusedInWords) {
  for (const char* name : {"<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>",
                           "<|im_middle|>", "<|tool_calls_section_begin|>"}) {
    const std::string more = std::string(R"(, "20": {"content": ")") + name + R"("})";
    EXPECT_THAT(Refusal(Config(more)), HasSubstr("Kimi K2")) << name;
  }
}

TEST(TokenizerConfig, AFileWithoutTheControlTokensIsRefused) {
  EXPECT_THAT(Refusal(R"({"added_tokens_decoder": {"0": {"content": "[BOS]"}}})"),
              HasSubstr("<|open|>"));
  EXPECT_THAT(Refusal(R"({"added_tokens_decoder": {}})"), HasSubstr("not the tokenizer_config"));
}

TEST(TokenizerConfig, MalformedFilesAreRefused) {
  EXPECT_THAT(Refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(Refusal(R"({"added_tokens_decoder": []})"), HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(Refusal(R"({"added_tokens_decoder": {}, "a": 1,})"), HasSubstr("line 1"));
}

TEST(TokenizerConfig, MalformedEntriesAreRefused) {
  for (const char* id : {"", "-1", "x", "01", "1.0", " 1", "99999999999", "2147483648"}) {
    const std::string more = std::string(", \"") + id + R"(": {"content": "[X]"})";
    EXPECT_THAT(Refusal(Config(more)), HasSubstr("is not a token id")) << id;
  }
  EXPECT_THAT(Refusal(Config(R"(, "20": {})")), HasSubstr("id 20"));
  EXPECT_THAT(Refusal(Config(R"(, "20": "[X]")")), HasSubstr("id 20"));
  EXPECT_THAT(Refusal(Config(R"(, "20": {"content": 5})")), HasSubstr("id 20"));
  EXPECT_THAT(Refusal(Config(R"(, "20": {"content": ""})")), HasSubstr("id 20"));
  const std::string longest = R"(, "20": {"content": ")" + Repeat("x", 129) + R"("})";
  EXPECT_THAT(Refusal(Config(longest)), HasSubstr("129 bytes"));
}

TEST(TokenizerConfig, RepeatedIdsAndNamesAreRefused) {
  EXPECT_THAT(Refusal(Config(R"(, "7": {"content": "[X]"})")), HasSubstr("\"7\" twice"));
  EXPECT_THAT(Refusal(Config(R"(, "20": {"content": "<|open|>"})")), HasSubstr("two ids"));
}

}  // namespace
}  // namespace kimi_k3::text
