// Standard output and error of the program: text at once, one live status line below it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace kimi_k3 {

// How often a status is written as a line of its own, where standard error is no terminal.
struct StatusPace {
  std::chrono::milliseconds first = std::chrono::seconds(30);
  std::chrono::milliseconds next = std::chrono::minutes(1);
  std::chrono::milliseconds later = std::chrono::minutes(5);  // after ten of them
};

// Writes to the two standard streams. Status is shown unless `quiet` is set; on a terminal that
// shows the text too, it stands in the line below the text and never touches it; where standard
// error is a file or a pipe it is a line now and then. One thread at a time.
class Output {
 public:
  explicit Output(bool quiet, StatusPace pace = {});
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // To standard output, unbuffered; throws Error(kIo) where it cannot be written (a full disk, a
  // closed pipe). utf8: valid. A terminal gets no control characters from it but line feeds and
  // tabs.
  void Text(std::string_view utf8);
  // The same, shown faint on a terminal.
  void FaintText(std::string_view utf8);
  // Whether Text has failed; then nothing more can be shown.
  bool broken() const { return broken_; }

  // A line to standard error, unless quiet.
  void Note(std::string_view line);
  // The same also where quiet: what answers may be wrong for.
  void Warning(std::string_view line);
  // The same with the program's name before it, as errors have it, also where quiet.
  void Problem(std::string_view line);

  // Whether Status would show anything new now: it is long enough since the last time.
  bool WantsStatus() const;
  // Shows `line` (ASCII) in place of the last status, cut to the terminal's width. Where there is
  // no terminal it is written where WantsStatus says so, else left out.
  void Status(std::string_view line);
  void ClearStatus();

  bool text_is_terminal() const { return text_is_terminal_; }

 private:
  void Write(std::string_view text, bool faint);
  // To standard error; on a terminal that shows the text too, not in the middle of its line.
  void WriteLine(std::string_view line);
  void StatusAsLine(std::string_view line);
  // Whether the text has filled its row to the last column (or that cannot be told): on some
  // terminals moving away and back would lose that column's character.
  bool TextFillsRow(size_t width) const;

  bool quiet_;
  StatusPace pace_;
  size_t lines_ = 0;  // of status
  bool text_is_terminal_;
  bool status_is_terminal_;
  bool shared_terminal_;  // text and status appear on the same one
  bool broken_ = false;
  bool status_shown_ = false;
  std::string text_line_;  // text since the last line feed, where the terminal is shared
  std::chrono::steady_clock::time_point next_status_;
};

}  // namespace kimi_k3
