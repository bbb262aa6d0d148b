// Text on a terminal: where it leaves the cursor, and what of it may reach the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kimi_k3 {

// The column behind `line` (valid UTF-8 without line feeds, begun at the left edge) on a terminal
// of `width` columns: 0 < column <= width for a line that is not empty. width means that the last
// column is filled and the next character will begin a new row. Width of characters as most
// terminals have it: 2 for East Asian wide ones and emoji, 0 for combining ones.
size_t ColumnAfter(std::string_view line, size_t width);

// The text with control characters that a terminal would obey made visible ("^[" for escape);
// line feeds and tabs stay, carriage returns are dropped. utf8: valid.
std::string VisibleText(std::string_view utf8);

// What may be written of `text` (any bytes) to the descriptor: VisibleText where it is a terminal,
// else the text as it is.
std::string TextFor(int fd, std::string_view text);

}  // namespace kimi_k3
