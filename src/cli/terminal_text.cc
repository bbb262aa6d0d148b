// Text on a terminal: where it leaves the cursor, and what of it may reach the terminal.
#include "cli/terminal_text.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

constexpr size_t kTabColumns = 8;

struct Range {
  uint32_t first, last;
};
constexpr Range kCombining[] = {{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},
                                {0x064b, 0x065f}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e},
                                {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
                                {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
constexpr Range kWide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                           {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                           {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                           {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};

template <size_t n>
bool Contains(const Range (&ranges)[n], uint32_t code) {
  return std::ranges::any_of(
      ranges, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

size_t Cells(uint32_t code) {
  if (Contains(kCombining, code)) return 0;
  return Contains(kWide, code) ? 2 : 1;
}

// Takes the first character of valid UTF-8 off `text`.
uint32_t NextCharacter(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t code = length == 1 ? lead : lead & (0xffU >> (length + 1));
  const size_t present = std::min(length, text.size());
  for (size_t i = 1; i < present; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  text.remove_prefix(present);
  return code;
}

}  // namespace

size_t ColumnAfter(std::string_view line, size_t width) {
  size_t column = 0;
  while (!line.empty()) {
    const uint32_t code = NextCharacter(line);
    if (code == '\t') {
      column = std::min((column / kTabColumns + 1) * kTabColumns, width - 1);
      continue;
    }
    const size_t cells = std::min(Cells(code), width);
    column = column + cells > width ? cells : column + cells;
  }
  return column;
}

std::string VisibleText(std::string_view utf8) {
  std::string visible;
  visible.reserve(utf8.size());
  while (!utf8.empty()) {
    const std::string_view from = utf8;
    const uint32_t code = NextCharacter(utf8);
    if (code == '\r') continue;
    if (code == 0x7f) {
      visible += "^?";
    } else if (code < 0x20 && code != '\n' && code != '\t') {
      visible += '^';
      visible += static_cast<char>(code + 0x40);
    } else if (code >= 0x80 && code < 0xa0) {
      visible += "\xef\xbf\xbd";
    } else {
      visible += from.substr(0, from.size() - utf8.size());
    }
  }
  return visible;
}

std::string TextFor(int fd, std::string_view text) {
  return isatty(fd) != 0 ? VisibleText(ReplaceInvalidUtf8(text)) : std::string(text);
}

}  // namespace kimi_k3
