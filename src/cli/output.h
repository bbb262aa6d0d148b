// Standard output and error of the program: text at once, one live status line below it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace kimi_k3 {

// Writes to the two standard streams. Status is shown only where standard error is a terminal and
// `quiet` is not set; on a terminal that shows the text too, it stands in the line below the text.
class Output {
 public:
  explicit Output(bool quiet);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // To standard output, unbuffered; throws Error(kIo) where it cannot be written (a full disk, a
  // closed pipe).
  void Text(std::string_view text);
  // The same, shown faint on a terminal.
  void FaintText(std::string_view text);
  // A line to standard error, unless quiet.
  void Note(std::string_view line);

  // Whether Status would show anything now: a terminal, and long enough since the last time.
  bool WantsStatus() const;
  // Shows `line` in place of the last status.
  void Status(std::string_view line);
  void ClearStatus();

  bool text_is_terminal() const { return text_is_terminal_; }

 private:
  bool quiet_;
  bool text_is_terminal_;
  bool status_is_terminal_;
  bool status_shown_ = false;
  std::chrono::steady_clock::time_point next_status_;
};

}  // namespace kimi_k3
