// Text to token ids and back: the byte-level BPE tokenizer of Kimi K3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kimi_k3 {

// The number of one vocabulary entry, 0 <= id < Tokenizer::vocab_size().
using TokenId = int32_t;

// What the spelling of a special token ("<|open|>") means inside a text.
enum class SpecialText {
  kPlain,      // ordinary characters: for whatever a user, a tool or a document wrote
  kRecognised  // the special token itself: for structure that the program writes
};

// The four ids that build the structure of a chat (docs/text.md).
struct ControlTokens {
  TokenId open = 0;            // <|open|>
  TokenId close = 0;           // <|close|>
  TokenId sep = 0;             // <|sep|>
  TokenId end_of_message = 0;  // <|end_of_msg|>
};

// The vocabulary of one model folder. Immutable after loading: every const function may be called
// from several threads at once. Movable, not copyable.
class Tokenizer {
 public:
  // Reads tiktoken.model and tokenizer_config.json of the folder; no other file is needed. The ids
  // from the end of the rank file to the end of the vocabulary are the special ids: each named one
  // keeps the number that the configuration gives it, the others are <|reserved_token_ID|>.
  // model_vocab_size: rows of the model's embedding where known; else the vocabulary ends with the
  // highest named id. Throws Error: kCheckpoint naming the file (and line) of whatever is missing,
  // malformed or of another model family; kIo where a file cannot be read.
  static Tokenizer Load(const std::filesystem::path& folder,
                        std::optional<TokenId> model_vocab_size = std::nullopt);

  // The same from the contents of the two files; `source` stands for the folder in messages.
  static Tokenizer FromFileContents(std::string_view rank_file, std::string_view config_json,
                                    const std::filesystem::path& source,
                                    std::optional<TokenId> model_vocab_size = std::nullopt);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids are 0 <= id < vocab_size(); those from first_special_id() on are special.
  TokenId vocab_size() const;
  TokenId first_special_id() const;

  // Appends the ids of `text` to `ids`. Invalid UTF-8 is replaced first (one U+FFFD for each
  // maximal ill-formed part); nothing is added, trimmed or normalised. Time is near-linear in the
  // length of any text. Texts encoded one by one give other ids than their concatenation.
  void Encode(std::string_view text, SpecialText special_text, std::vector<TokenId>& ids) const;
  std::vector<TokenId> Encode(std::string_view text, SpecialText special_text) const;

  // The pieces into which plain text is cut before merging, for tests and diagnosis. The views
  // point into `valid_utf8`, which must be valid UTF-8.
  static std::vector<std::string_view> Split(std::string_view valid_utf8);

  // The bytes of one token (a special token: its name); not always valid UTF-8 by themselves, so
  // text that is shown goes through a Utf8Stream. The view lives as long as the tokenizer. Throws
  // Error(kUsage) for an id outside the vocabulary.
  std::string_view TokenBytes(TokenId id) const;

  // The bytes of all tokens, one after another. Throws Error(kUsage) as TokenBytes does.
  std::string Decode(std::span<const TokenId> ids) const;

  // The id of a special token by its name, reserved names included.
  std::optional<TokenId> FindSpecial(std::string_view name) const;

  // The four structural ids; every loaded tokenizer has them.
  const ControlTokens& control_tokens() const;

  // The ids at which generation ends: <|end_of_msg|>, and [EOS] and [EOT] where they exist.
  const std::vector<TokenId>& StopTokens() const;

 private:
  struct Data;
  explicit Tokenizer(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

}  // namespace kimi_k3
