// Fuzzes the tokenizer files, and text and ids on a good tokenizer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kimi_k3/chat.h"
#include "kimi_k3/chat_parser.h"
#include "kimi_k3/tokenizer.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

// Base64 of a single byte, canonical.
std::string Base64OfByte(unsigned byte) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return {kAlphabet[byte >> 2], kAlphabet[byte << 4 & 0x3F], '=', '='};
}

// The 256 bytes and three merges.
std::string BaseRankFile() {
  std::string file;
  for (unsigned byte = 0; byte < 256; ++byte) {
    file += Base64OfByte(byte) + " " + std::to_string(byte) + "\n";
  }
  return file + "ICA= 256\nYWE= 257\nYWFh 258\n";
}

constexpr std::string_view kConfig =
    R"({"added_tokens_decoder": {"259": {"content": "[EOS]"}, "260": {"content": "<|end_of_msg|>"},
        "261": {"content": "<|open|>"}, "262": {"content": "<|close|>"},
        "263": {"content": "<|sep|>"}, "266": {"content": "[PAD]"}}})";

void Check(bool holds) {
  if (!holds) std::abort();
}

// Only a refusal of the right kind may leave the call.
template <typename Function>
void Try(ErrorKind allowed, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    Check(error.kind() == allowed);
  }
}

void CheckRoundTrip(const Tokenizer& tokenizer, std::string_view text) {
  for (const SpecialText mode : {SpecialText::kPlain, SpecialText::kRecognised}) {
    const std::vector<TokenId> ids = tokenizer.Encode(text, mode);
    for (const TokenId id : ids) {
      Check(id >= 0 && id < tokenizer.vocab_size());
      Check(mode == SpecialText::kRecognised || id < tokenizer.first_special_id());
    }
    Check(tokenizer.Decode(ids) == ReplaceInvalidUtf8(text));
  }
}

void CheckFiles(std::string_view ranks, std::string_view config) {
  Try(ErrorKind::kCheckpoint, [&] {
    CheckRoundTrip(Tokenizer::FromFileContents(ranks, config, "fuzz"), "the aaa  <|open|>\n");
  });
}

void CheckTurn(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    ids.push_back(byte >= 0xF8 ? 259 + (byte - 0xF8) : byte);  // some bytes are special ids
  }
  const ParsedTurn turn = ParseTurn(tokenizer, ids, Channel::kThink);
  Check(IsValidUtf8(turn.reasoning) && IsValidUtf8(turn.content));
  const std::vector<TokenId> complete = ChatParser::CompleteTurn(tokenizer, ids, Channel::kThink);
  const ParsedTurn again = ParseTurn(tokenizer, complete, Channel::kThink);
  Check(again.reasoning == turn.reasoning && again.tool_calls.size() == turn.tool_calls.size());
}

void FuzzOne(std::string_view input) {
  static const std::string base_ranks = BaseRankFile();
  static const Tokenizer tokenizer = Tokenizer::FromFileContents(base_ranks, kConfig, "base");
  if (input.empty()) return;
  const char choice = input.front();
  input.remove_prefix(1);
  switch (static_cast<unsigned char>(choice) % 6) {
    case 0:
      return CheckFiles(input, kConfig);
    case 1:
      return CheckFiles(base_ranks + std::string(input), kConfig);
    case 2:
      return CheckFiles(base_ranks, input);
    case 3:
      return CheckRoundTrip(tokenizer, input);
    case 4:
      return CheckTurn(tokenizer, input);
    default:
      return Try(ErrorKind::kUsage, [&] { RenderChat(tokenizer, ParseChatRequest(input)); });
  }
}

}  // namespace
}  // namespace kimi_k3

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kimi_k3::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
