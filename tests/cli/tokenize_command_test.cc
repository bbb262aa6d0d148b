// The tokenize command on streams.
#include "cli/tokenize_command.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

#include "base/error.h"

namespace kimi_k3 {
namespace {

// The vocabulary of the text tests: 756 ordinary tokens, then [BOS], [EOS], <|end_of_msg|>,
// <|open|>, <|close|>, <|sep|> and others up to 787.
TokenizeOptions Options() {
  TokenizeOptions options;
  options.model_dir = std::string(KIMI_K3_SOURCE_DIR) + "/tests/data/text/small";
  return options;
}

std::string Tokenize(const TokenizeOptions& options, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  RunTokenize(options, in, out);
  return out.str();
}

ErrorKind KindOfFailure(const TokenizeOptions& options, const std::string& input) {
  try {
    Tokenize(options, input);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no Error was thrown";
  return ErrorKind::kRun;
}

TEST(TokenizeCommand, EncodesTheInputAsItIs) {
  EXPECT_EQ(Tokenize(Options(), ""), "\n");
  EXPECT_EQ(Tokenize(Options(), "!\""), "0 1\n");
}

TEST(TokenizeCommand, SpecialNamesCountOnlyWhenAskedFor) {
  TokenizeOptions options = Options();
  EXPECT_EQ(Tokenize(options, "<|open|>").find("759"), std::string::npos);
  options.special = true;
  EXPECT_EQ(Tokenize(options, "<|open|>![PAD]"), "759 0 787\n");
}

TEST(TokenizeCommand, DecodesToTheBytesOfTheText) {
  const std::string text = std::string("caf\xC3\xA9 \xE4\xB8\x96\xE7\x95\x8C\r\n\0x", 17);
  TokenizeOptions decode = Options();
  decode.decode = true;
  EXPECT_EQ(Tokenize(decode, Tokenize(Options(), text)), text);
  EXPECT_EQ(Tokenize(decode, "0,1\n0"), "!\"!");
  EXPECT_EQ(Tokenize(decode, "  \n"), "");
}

TEST(TokenizeCommand, RefusesWhatIsNoTokenId) {
  TokenizeOptions decode = Options();
  decode.decode = true;
  EXPECT_EQ(KindOfFailure(decode, "1 two"), ErrorKind::kUsage);
  EXPECT_EQ(KindOfFailure(decode, "788"), ErrorKind::kUsage);
  EXPECT_EQ(KindOfFailure(decode, "-1"), ErrorKind::kUsage);
  EXPECT_EQ(KindOfFailure(decode, "99999999999999999999"), ErrorKind::kUsage);
}

TEST(TokenizeCommand, RendersAChatRequest) {
  TokenizeOptions chat = Options();
  chat.chat = true;
  const std::string request =
      R"({"messages": [{"role": "user", "content": "<|open|>"}],
          "chat_template_kwargs": {"thinking": false, "add_generation_prompt": false}})";
  TokenizeOptions decode = Options();
  decode.decode = true;
  EXPECT_EQ(Tokenize(decode, Tokenize(chat, request)),
            "<|open|>message role=\"user\"<|sep|><|open|><|close|>message<|sep|><|end_of_msg|>");
  EXPECT_EQ(KindOfFailure(chat, "{\"messages\": [}"), ErrorKind::kUsage);
}

TEST(TokenizeCommand, ParsesGeneratedIds) {
  TokenizeOptions special = Options();
  special.special = true;
  const std::string ids = Tokenize(special, "hm<|close|>think<|sep|><|open|>response<|sep|>yes");
  TokenizeOptions parse = Options();
  parse.parse = true;
  EXPECT_EQ(Tokenize(parse, ids),
            R"({"reasoning_content":"hm","content":"yes","tool_calls":[],"finish_reason":"length"})"
            "\n");
  parse.no_thinking = true;
  EXPECT_EQ(Tokenize(parse, Tokenize(special, "yes<|close|>response<|sep|><|end_of_msg|>")),
            R"({"reasoning_content":"","content":"yes","tool_calls":[],"finish_reason":"stop"})"
            "\n");
}

TEST(TokenizeCommand, AFolderWithoutTheFilesIsRefused) {
  TokenizeOptions options = Options();
  options.model_dir += "/none";
  EXPECT_EQ(KindOfFailure(options, "x"), ErrorKind::kCheckpoint);
}

TEST(TokenizeCommand, AFailingOutputIsAnError) {
  std::istringstream in("text");
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THROW(RunTokenize(Options(), in, out), Error);
}

TEST(TokenizeCommand, ModesExcludeEachOther) {
  CLI::App app;
  AddTokenizeCommand(app);
  EXPECT_THROW(app.parse("tokenize -m x --decode --chat"), CLI::ParseError);
  EXPECT_THROW(app.parse("tokenize -m x --no-thinking"), CLI::ParseError);
  EXPECT_THROW(app.parse("tokenize --decode"), CLI::ParseError);
}

}  // namespace
}  // namespace kimi_k3
