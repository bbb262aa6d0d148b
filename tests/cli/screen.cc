// What a terminal of the VT100 family shows after a stream of bytes.
#include "cli/screen.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kimi_k3 {

Screen::Screen(size_t rows, size_t columns)
    : columns_(columns), screen_(rows, std::string(columns, ' ')) {}

void Screen::Feed(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\x1b') {
      i += Escape(bytes.substr(i + 1));
    } else if (c == '\n') {
      Down();
    } else if (c == '\r') {
      column_ = 0;
      row_is_full_ = false;
    } else if (c == '\t') {
      column_ = std::min((column_ / 8 + 1) * 8, columns_ - 1);
    } else if (c >= ' ' && c < 0x7f) {
      Put(c);
    } else {
      ADD_FAILURE() << "a terminal was sent byte " << static_cast<int>(c);
    }
  }
}

void Screen::Put(char c) {
  if (row_is_full_) {
    column_ = 0;
    Down();
  }
  screen_[row_][column_] = c;
  row_is_full_ = column_ + 1 == columns_;
  if (!row_is_full_) ++column_;
}

void Screen::Down() {
  row_is_full_ = false;
  if (++row_ < screen_.size()) return;
  --row_;
  scrolled_.push_back(screen_.front());
  std::rotate(screen_.begin(), screen_.begin() + 1, screen_.end());
  screen_.back().assign(columns_, ' ');
}

void Screen::Up() {
  row_is_full_ = false;
  if (row_ > 0) --row_;
}

size_t Screen::Escape(std::string_view rest) {
  switch (rest.empty() ? '\0' : rest.front()) {
    case 'D':
      Down();
      return 1;
    case 'M':
      Up();
      return 1;
    case 'E':
      column_ = 0;
      Down();
      return 1;
    case '7':
      saved_row_ = row_;
      saved_column_ = column_;
      return 1;
    case '8':
      row_ = saved_row_;
      column_ = saved_column_;
      row_is_full_ = false;
      return 1;
    case '[':
      break;
    default:
      ADD_FAILURE() << "unknown escape sequence: " << rest.substr(0, 8);
      return 0;
  }
  const size_t end = rest.find_first_not_of("0123456789;", 1);
  const char kind = end == std::string_view::npos ? '\0' : rest[end];
  if (kind == 'K' || kind == 'J') {
    EXPECT_EQ(end, 1U) << "only erasing behind the cursor is understood";
    row_is_full_ = false;
    Erase(row_, column_);
    for (size_t row = row_ + 1; kind == 'J' && row < screen_.size(); ++row) Erase(row, 0);
  } else if (kind != 'm') {
    ADD_FAILURE() << "unknown control sequence: " << rest.substr(0, 8);
  }
  return end + 1;
}

void Screen::Erase(size_t row, size_t first_column) {
  std::fill(screen_[row].begin() + static_cast<ptrdiff_t>(first_column), screen_[row].end(), ' ');
}

std::vector<std::string> Screen::Rows() const {
  std::vector<std::string> rows = scrolled_;
  rows.insert(rows.end(), screen_.begin(), screen_.end());
  for (std::string& row : rows) row.erase(row.find_last_not_of(' ') + 1);
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  return rows;
}

}  // namespace kimi_k3
