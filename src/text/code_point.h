// Reading single code points from UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kimi_k3::text {

struct CodePoint {
  char32_t value = 0;
  size_t size_bytes = 0;
};

// The code point at `position`; the text must be valid UTF-8 and position the start of a character.
inline CodePoint CodePointAt(std::string_view valid_utf8, size_t position) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(valid_utf8[position + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

// What stands at the start of arbitrary bytes.
struct Utf8Prefix {
  enum class Kind { kCharacter, kIllFormed, kUnfinished };
  Kind kind = Kind::kCharacter;
  size_t size_bytes = 0;  // of the character or of the maximal ill-formed or unfinished part
};

// Looks at the start of non-empty bytes; kUnfinished where they end inside a character.
Utf8Prefix ReadUtf8Prefix(std::string_view bytes);

// Length in bytes of the longest start of `bytes` that is valid UTF-8.
size_t ValidUtf8Prefix(std::string_view bytes);

// Appends the code point, which must not be a surrogate, as UTF-8.
void AppendUtf8(char32_t code_point, std::string& out);

// Appends `bytes` to `out`, each maximal ill-formed part as U+FFFD. Returns how many trailing bytes
// were left out because they begin a character that is not complete.
size_t AppendReplacingInvalid(std::string_view bytes, std::string& out);

// U+FFFD as UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace kimi_k3::text
