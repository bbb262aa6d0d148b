// Text to token ids and back: loading a vocabulary and the path from text to ids.
#include "kimi_k3/tokenizer.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "kimi_k3/utf8.h"
#include "text/bpe.h"
#include "text/rank_file.h"
#include "text/special_tokens.h"
#include "text/splitter.h"
#include "text/tokenizer_config.h"
#include "text/vocabulary.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kRankFileName = "tiktoken.model";
constexpr std::string_view kConfigFileName = "tokenizer_config.json";
// The vendor reserves this many ids after the ranks; a named id beyond them means that the two
// files do not belong together or that the rank file was cut short.
constexpr TokenId kReservedIds = 256;
// A model may pad its embedding to a round number of rows.
constexpr TokenId kMostPaddedIds = 65536;

// Throws Error(kCheckpoint) that says what is there in the place of a file.
void RefuseUnlessFile(const std::filesystem::path& folder, const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::regular) return;
  const bool loop = error == std::errc::too_many_symbolic_link_levels;
  if (type == fs::file_type::none && !loop) {
    Fail(ErrorKind::kIo, "{}: cannot look at it: {}", path.string(), error.message());
  }
  std::error_code ignored;
  if (type == fs::file_type::not_found && !fs::is_symlink(fs::symlink_status(path, ignored))) {
    if (!fs::is_directory(folder, ignored)) {
      Fail(ErrorKind::kCheckpoint, "{}: {}; name the folder that the model's files lie in",
           folder.string(), fs::exists(folder, ignored) ? "is no folder" : "does not exist");
    }
    Fail(ErrorKind::kCheckpoint,
         "{}: not found; the tokenizer of Kimi K3 consists of {} and {} in the model folder (no "
         "tokenizer.json is needed)",
         path.string(), kRankFileName, kConfigFileName);
  }
  const char* what = loop                               ? "a link that leads back to itself"
                     : type == fs::file_type::not_found ? "a link to a file that is not there"
                     : type == fs::file_type::directory ? "a folder, not a file"
                     : type == fs::file_type::fifo      ? "a pipe, not a file"
                                                        : "a device or a socket, not a file";
  Fail(ErrorKind::kCheckpoint, "{}: is {}", path.string(), what);
}

std::string ReadTokenizerFile(const std::filesystem::path& folder, std::string_view name,
                              uint64_t limit_bytes) {
  const std::filesystem::path path = folder / name;
  RefuseUnlessFile(folder, path);
  std::string text = ReadWholeFile(path, limit_bytes);
  if (text.starts_with("version https://git-lfs.github.com/spec/")) {
    Fail(ErrorKind::kCheckpoint,
         "{}: is a git-lfs pointer: the real file was never downloaded (run git lfs pull, or fetch "
         "this file again)",
         path.string());
  }
  return text;
}

TokenId VocabularyEnd(const std::map<TokenId, std::string>& named, TokenId ranks,
                      std::optional<TokenId> model_vocab_size, const std::string& rank_file_name,
                      const std::string& config_name) {
  for (const auto& [id, name] : named) {
    if (id < ranks) {
      Fail(ErrorKind::kCheckpoint,
           "{}: the special token {} has id {}, which {} gives to an ordinary token (it has {})",
           config_name, name, id, rank_file_name, ranks);
    }
    if (id - ranks >= kReservedIds) {
      Fail(ErrorKind::kCheckpoint,
           "{}: the special token {} has id {}, more than {} past the {} tokens of {}; is that "
           "file complete?",
           config_name, name, id, kReservedIds, ranks, rank_file_name);
    }
  }
  const TokenId end = named.rbegin()->first + 1;
  if (!model_vocab_size) return end;
  if (*model_vocab_size < end || *model_vocab_size - ranks > kMostPaddedIds) {
    Fail(
        ErrorKind::kCheckpoint,
        "{}: the vocabulary has {} ids (the last is {}), but the model has {}; do the files belong "
        "to the same model?",
        config_name, end, named.rbegin()->second, *model_vocab_size);
  }
  return *model_vocab_size;
}

void RefuseReservedNames(const std::map<TokenId, std::string>& named,
                         const std::string& config_name) {
  for (const auto& [id, name] : named) {
    if (name.starts_with("<|reserved_token_") && name != text::ReservedTokenName(id)) {
      Fail(ErrorKind::kCheckpoint, "{}: id {} has the reserved name {} of another id", config_name,
           id, name);
    }
  }
}

}  // namespace

struct Tokenizer::Data {
  text::Vocabulary vocabulary;
  text::SpecialTokens specials;
  ControlTokens control;
  std::vector<TokenId> stop_tokens;
};

Tokenizer::Tokenizer(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::Load(const std::filesystem::path& folder,
                          std::optional<TokenId> model_vocab_size) {
  const std::string ranks = ReadTokenizerFile(folder, kRankFileName, text::kLargestRankFileBytes);
  const std::string config = ReadTokenizerFile(folder, kConfigFileName, text::kLargestConfigBytes);
  return FromFileContents(ranks, config, folder, model_vocab_size);
}

Tokenizer Tokenizer::FromFileContents(std::string_view rank_file, std::string_view config_json,
                                      const std::filesystem::path& source,
                                      std::optional<TokenId> model_vocab_size) {
  const std::string rank_file_name = (source / kRankFileName).string();
  const std::string config_name = (source / kConfigFileName).string();
  const std::map<TokenId, std::string> named = text::ParseTokenizerConfig(config_json, config_name);
  RefuseReservedNames(named, config_name);
  auto data = std::make_unique<Data>();
  data->vocabulary = text::ParseRankFile(rank_file, rank_file_name);
  const TokenId ranks = data->vocabulary.size();
  const TokenId end = VocabularyEnd(named, ranks, model_vocab_size, rank_file_name, config_name);
  data->specials = text::SpecialTokens(ranks, end, named);
  data->control = {*data->specials.Find("<|open|>"), *data->specials.Find("<|close|>"),
                   *data->specials.Find("<|sep|>"), *data->specials.Find("<|end_of_msg|>")};
  for (const std::string_view name : {"<|end_of_msg|>", "[EOS]", "[EOT]"}) {
    if (const auto id = data->specials.Find(name)) data->stop_tokens.push_back(*id);
  }
  return Tokenizer(std::move(data));
}

TokenId Tokenizer::vocab_size() const { return data_->specials.end(); }
TokenId Tokenizer::first_special_id() const { return data_->specials.first(); }
const ControlTokens& Tokenizer::control_tokens() const { return data_->control; }
const std::vector<TokenId>& Tokenizer::StopTokens() const { return data_->stop_tokens; }

std::optional<TokenId> Tokenizer::FindSpecial(std::string_view name) const {
  return data_->specials.Find(name);
}

void Tokenizer::Encode(std::string_view text, SpecialText special_text,
                       std::vector<TokenId>& ids) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  text::BpeMerger merger(data_->vocabulary);
  const auto encode_plain = [&](std::string_view plain) {
    text::ForEachPiece(plain, [&](std::string_view piece) { merger.Encode(piece, ids); });
  };
  text::ForEachPart(text, [&](std::string_view part) {
    size_t start = 0;
    while (special_text == SpecialText::kRecognised) {
      const auto match = data_->specials.FindInText(part, start);
      if (!match) break;
      encode_plain(part.substr(start, match->start - start));
      ids.push_back(match->id);
      start = match->start + match->size_bytes;
    }
    encode_plain(part.substr(start));
  });
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, SpecialText special_text) const {
  std::vector<TokenId> ids;
  Encode(text, special_text, ids);
  return ids;
}

std::vector<std::string_view> Tokenizer::Split(std::string_view valid_utf8) {
  std::vector<std::string_view> pieces;
  text::ForEachPart(valid_utf8, [&](std::string_view part) {
    text::ForEachPiece(part, [&](std::string_view piece) { pieces.push_back(piece); });
  });
  return pieces;
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    Fail(ErrorKind::kUsage, "token id {} is outside the vocabulary (0 to {})", id,
         vocab_size() - 1);
  }
  return id < first_special_id() ? data_->vocabulary.Bytes(id) : data_->specials.Name(id);
}

std::string Tokenizer::Decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += TokenBytes(id);
  return bytes;
}

}  // namespace kimi_k3
