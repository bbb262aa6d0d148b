// Reads the rank file (tiktoken.model) of a tokenizer; it comes from outside and is not trusted.
#include "text/rank_file.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "base/error.h"

namespace kimi_k3::text {
namespace {

constexpr uint8_t kNotBase64 = 0xFF;

constexpr std::array<uint8_t, 256> MakeBase64Values() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, 256> values{};
  for (auto& value : values) value = kNotBase64;
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return values;
}

constexpr std::array<uint8_t, 256> kBase64Values = MakeBase64Values();

// Decodes canonical base64: whole groups of four, padding where needed, unused bits zero.
bool DecodeBase64(std::string_view text, std::string& out) {
  out.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::string_view digits = text.substr(0, text.size() - padding);
  uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : digits) {
    const uint8_t value = kBase64Values[static_cast<unsigned char>(c)];
    if (value == kNotBase64) return false;
    bits = (bits << 6 | value) & 0xFFFF;
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      out += static_cast<char>(bits >> bit_count & 0xFF);
    }
  }
  return (bits & ((1U << bit_count) - 1)) == 0;
}

// One file being read; knows the line for messages.
class RankFileReader {
 public:
  RankFileReader(std::string_view contents, const std::string& file_name)
      : rest_(contents), file_name_(file_name) {}

  Vocabulary Read() {
    RefuseForeignFiles();
    while (!rest_.empty()) ReadLine(NextLine());
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (!vocabulary_.Find(std::string_view(&c, 1))) {
        Fail(ErrorKind::kCheckpoint,
             "{}: no token for the single byte 0x{:02X} among its {} tokens; all 256 are needed",
             file_name_, byte, vocabulary_.size());
      }
    }
    return std::move(vocabulary_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    Fail(ErrorKind::kCheckpoint, "{}: line {}: {}; fetch this file again", file_name_, line_number_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  void RefuseForeignFiles() const {
    if (rest_.empty()) Fail(ErrorKind::kCheckpoint, "{}: the file is empty", file_name_);
    if (rest_.starts_with("version https://git-lfs")) {
      Fail(
          ErrorKind::kCheckpoint,
          "{}: is a Git LFS pointer, not the file itself; fetch it with `git lfs pull` or download "
          "it again",
          file_name_);
    }
    if (rest_.starts_with("{")) {
      Fail(ErrorKind::kCheckpoint,
           "{}: is JSON, not a rank file with lines `base64 rank`; the model folder as published "
           "holds the right one",
           file_name_);
    }
  }

  std::string_view NextLine() {
    ++line_number_;
    const size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return line;
  }

  void ReadLine(std::string_view line) {
    if (line.empty()) Refuse("is empty; each line must be `base64 rank`");
    if (line.ends_with('\r')) {
      Refuse("ends with a carriage return; was the file changed by a text-mode transfer?");
    }
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) Refuse("has no space; each line must be `base64 rank`");
    ReadToken(line.substr(0, space));
    ReadRank(line.substr(space + 1));
  }

  void ReadToken(std::string_view base64) {
    if (base64.size() / 4 * 3 > kLongestTokenBytes + 2) RefuseLongToken(base64.size() / 4 * 3);
    if (!DecodeBase64(base64, token_)) {
      Refuse("the token is not canonical base64: `{}`", Printable(base64));
    }
    if (token_.size() > kLongestTokenBytes) RefuseLongToken(token_.size());
    if (!vocabulary_.Append(token_)) {
      Refuse("the token `{}` is already that of rank {}", Printable(base64),
             *vocabulary_.Find(token_));
    }
  }

  [[noreturn]] void RefuseLongToken(size_t size_bytes) const {
    Refuse("the token is about {} bytes long; at most {} are accepted", size_bytes,
           kLongestTokenBytes);
  }

  void ReadRank(std::string_view text) {
    const TokenId expected = vocabulary_.size() - 1;
    TokenId rank = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    const bool canonical = error == std::errc() && end == text.data() + text.size() && rank >= 0 &&
                           (text.size() == 1 || text.front() != '0');
    if (!canonical) Refuse("the rank is not a plain decimal number: `{}`", Printable(text));
    if (rank != expected) {
      Refuse("rank {} where {} is due; ranks must count up from 0 without a gap", rank, expected);
    }
  }

  // Short, and free of bytes that would upset a terminal.
  static std::string Printable(std::string_view text) {
    constexpr size_t kShown = 40;
    std::string shown;
    for (const char c : text.substr(0, kShown)) shown += c >= ' ' && c <= '~' ? c : '?';
    if (text.size() > kShown) shown += "...";
    return shown;
  }

  std::string_view rest_;
  const std::string& file_name_;
  size_t line_number_ = 0;
  std::string token_;
  Vocabulary vocabulary_;
};

}  // namespace

Vocabulary ParseRankFile(std::string_view contents, const std::string& file_name) {
  if (contents.size() > kLargestRankFileBytes) {
    Fail(ErrorKind::kCheckpoint, "{}: is {} bytes long; at most {} are accepted", file_name,
         contents.size(), kLargestRankFileBytes);
  }
  return RankFileReader(contents, file_name).Read();
}

}  // namespace kimi_k3::text
