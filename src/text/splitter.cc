// The vendor's split pattern as a hand-written scanner: no regex engine at hand has its class
// intersections and its version of Unicode.
#include "text/splitter.h"

#include <cstddef>
#include <optional>

#include "text/code_point.h"
#include "text/unicode_class.h"

namespace kimi_k3::text {
namespace {

constexpr size_t kChunkCodePoints = 400'000;
constexpr size_t kRunCodePoints = 25'000;
constexpr size_t kDigitsPerPiece = 3;

// A character with its classes; past the end of the text it has no size and no classes.
struct Character {
  char32_t value = 0;
  size_t size_bytes = 0;
  ClassMask mask = 0;

  bool exists() const { return size_bytes != 0; }
  bool Has(ClassMask classes) const { return (mask & classes) != 0; }
  bool IsLineEnd() const { return exists() && (value == '\r' || value == '\n'); }
  bool IsPunctuation() const { return exists() && text::IsPunctuation(mask); }
  // May stand before the letters of a word.
  bool IsWordPrefix() const { return exists() && !IsLineEnd() && !Has(kLetter | kNumber); }
};

// Finds the end of the piece that starts at a position of one part.
class PieceScanner {
 public:
  explicit PieceScanner(std::string_view text) : text_(text) {}

  // The end of the piece at `start`, which must lie before the end of the text.
  size_t PieceEnd(size_t start) const {
    const Character first = At(start);
    if (first.Has(kHan)) return RunEnd(start, kHan);
    if (const auto end = WordEnd(start, first)) return ContractionEnd(*end);
    if (first.Has(kNumber)) return DigitsEnd(start);
    const size_t next = start + first.size_bytes;
    const size_t body = first.value == ' ' && At(next).IsPunctuation() ? next : start;
    if (At(body).IsPunctuation()) return PunctuationEnd(body);
    return SpaceEnd(start);
  }

 private:
  Character At(size_t position) const {
    if (position >= text_.size()) return {};
    const CodePoint point = CodePointAt(text_, position);
    return {point.value, point.size_bytes, ClassOf(point.value)};
  }

  size_t RunEnd(size_t position, ClassMask classes) const {
    for (Character c = At(position); c.Has(classes); c = At(position)) position += c.size_bytes;
    return position;
  }

  std::optional<size_t> WordEnd(size_t start, const Character& first) const {
    const size_t next = start + first.size_bytes;
    const bool has_prefix = first.IsWordPrefix();
    if (has_prefix) {
      if (const auto end = LowerWordEnd(next)) return end;
    }
    if (const auto end = LowerWordEnd(start)) return end;
    if (has_prefix) {
      if (const auto end = UpperWordEnd(next)) return end;
    }
    return UpperWordEnd(start);
  }

  // Any number of kUpper, then at least one kLower. Many letters are both, so the run of kUpper
  // may have to give some of them back.
  std::optional<size_t> LowerWordEnd(size_t start) const {
    size_t position = start;
    std::optional<size_t> after_last_lower;
    for (Character c = At(position); c.Has(kUpper); c = At(position)) {
      position += c.size_bytes;
      if (c.Has(kLower)) after_last_lower = position;
    }
    if (At(position).Has(kLower)) return RunEnd(position, kLower);
    return after_last_lower;
  }

  // At least one kUpper, then any number of kLower.
  std::optional<size_t> UpperWordEnd(size_t start) const {
    const size_t upper_end = RunEnd(start, kUpper);
    if (upper_end == start) return std::nullopt;
    return RunEnd(upper_end, kLower);
  }

  // Past 's, 't, 'm, 'd, 're, 've or 'll in any case, else `position`.
  size_t ContractionEnd(size_t position) const {
    constexpr char32_t kLongS = 0x17F;  // its upper case is S
    if (At(position).value != '\'') return position;
    const Character first = At(position + 1);
    const size_t after_first = position + 1 + first.size_bytes;
    const char32_t a = AsciiLower(first.value);
    if (a == 's' || a == 't' || a == 'm' || a == 'd' || a == kLongS) return after_first;
    const char32_t b = AsciiLower(At(after_first).value);
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) {
      return after_first + 1;
    }
    return position;
  }

  static char32_t AsciiLower(char32_t c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; }

  size_t DigitsEnd(size_t position) const {
    for (size_t i = 0; i < kDigitsPerPiece; ++i) {
      const Character c = At(position);
      if (!c.Has(kNumber)) break;
      position += c.size_bytes;
    }
    return position;
  }

  size_t PunctuationEnd(size_t position) const {
    for (Character c = At(position); c.IsPunctuation(); c = At(position)) position += c.size_bytes;
    while (At(position).IsLineEnd()) ++position;
    return position;
  }

  // White space ends after its last line end; without one, its last character is left to what
  // follows, if anything does.
  size_t SpaceEnd(size_t start) const {
    size_t position = start;
    size_t last_start = start;
    std::optional<size_t> after_line_end;
    for (Character c = At(position); c.Has(kSpace); c = At(position)) {
      last_start = position;
      position += c.size_bytes;
      if (c.IsLineEnd()) after_line_end = position;
    }
    if (after_line_end) return *after_line_end;
    if (position == text_.size() || last_start == start) return position;
    return last_start;
  }

  std::string_view text_;
};

}  // namespace

void ForEachPart(std::string_view valid_utf8, FunctionRef<void(std::string_view)> take) {
  size_t part_start = 0;
  size_t chunk_length = 0;  // code points
  size_t run_length = 0;
  bool run_is_space = false;
  const auto cut = [&](size_t position) {
    if (position > part_start) take(valid_utf8.substr(part_start, position - part_start));
    part_start = position;
  };
  // A text this short has no cut; it is nearly every text.
  size_t position = valid_utf8.size() <= kRunCodePoints ? valid_utf8.size() : 0;
  while (position < valid_utf8.size()) {
    const CodePoint point = CodePointAt(valid_utf8, position);
    const bool is_space = IsPythonSpace(point.value);
    if (chunk_length == kChunkCodePoints) {
      cut(position);
      chunk_length = 0;
      run_length = 0;
    }
    if (is_space != run_is_space) run_length = 0;
    if (run_length == kRunCodePoints) {
      cut(position);
      run_length = 0;
    }
    run_is_space = is_space;
    ++chunk_length;
    ++run_length;
    position += point.size_bytes;
  }
  cut(position);
}

void ForEachPiece(std::string_view valid_utf8, FunctionRef<void(std::string_view)> take) {
  const PieceScanner scanner(valid_utf8);
  for (size_t start = 0; start < valid_utf8.size();) {
    const size_t end = scanner.PieceEnd(start);
    take(valid_utf8.substr(start, end - start));
    start = end;
  }
}

}  // namespace kimi_k3::text
