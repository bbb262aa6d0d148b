// What a terminal of the VT100 family shows after a stream of bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kimi_k3 {

// Understands what the program sends: ASCII text, tabs, CR, LF, ESC D, M, E, 7, 8, CSI J, K, m. It
// is as unforgiving as any real terminal: moving, restoring or erasing with the cursor behind the
// last column forgets that the next character belongs to the next row. A byte that it does not
// understand fails the test.
class Screen {
 public:
  Screen(size_t rows, size_t columns);
  void Feed(std::string_view bytes);

  // Everything shown, scrolled-off rows first, without trailing blanks and empty rows at the end.
  std::vector<std::string> Rows() const;
  size_t cursor_row() const { return row_; }
  size_t cursor_column() const { return column_; }

 private:
  void Put(char c);
  void Down();
  void Up();
  // Returns the bytes of the sequence behind the escape.
  size_t Escape(std::string_view rest);
  void Erase(size_t row, size_t first_column);

  size_t columns_;
  std::vector<std::string> screen_;
  std::vector<std::string> scrolled_;
  size_t row_ = 0, column_ = 0;
  bool row_is_full_ = false;
  size_t saved_row_ = 0, saved_column_ = 0;
};

}  // namespace kimi_k3
