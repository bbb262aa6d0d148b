// Standard output and error of the program: text at once, one live status line below it.
#include "cli/output.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "cli/terminal_text.h"

namespace kimi_k3 {
namespace {

constexpr auto kStatusInterval = std::chrono::milliseconds(100);
constexpr size_t kLinesAtFirst = 10;  // of status, before they become fewer
constexpr size_t kUsualWidth = 80;
// A longer line is not followed to its end.
constexpr size_t kLongestTextLineBytes = size_t{1} << 16;

// What VT100 and everything since understands.
constexpr std::string_view kMakeRoomBelow = "\x1b\x44\x1b\x4d";  // down, scrolling, and up again
constexpr std::string_view kSaveCursor = "\x1b\x37";
constexpr std::string_view kRestoreCursor = "\x1b\x38";
constexpr std::string_view kNextRow = "\x1b\x45";
constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr std::string_view kFaint = "\x1b[2m";
constexpr std::string_view kNotFaint = "\x1b[22m";

// False where the stream takes nothing more.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool TakesStatus(int fd) {
  const char* kind = std::getenv("TERM");
  return isatty(fd) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

bool AreSameTerminal(int a, int b) {
  struct stat first = {};
  struct stat second = {};
  return isatty(a) != 0 && isatty(b) != 0 && fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
         first.st_rdev == second.st_rdev;
}

// Asked each time: the window may have been resized.
size_t StatusWidth() {
  struct winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

}  // namespace

Output::Output(bool quiet, StatusPace pace)
    : quiet_(quiet),
      pace_(pace),
      text_is_terminal_(isatty(STDOUT_FILENO) != 0),
      status_is_terminal_(TakesStatus(STDERR_FILENO)),
      shared_terminal_(AreSameTerminal(STDOUT_FILENO, STDERR_FILENO)) {
  if (!status_is_terminal_) next_status_ = std::chrono::steady_clock::now() + pace_.first;
}

Output::~Output() { ClearStatus(); }

void Output::Text(std::string_view utf8) { Write(utf8, false); }
void Output::FaintText(std::string_view utf8) { Write(utf8, text_is_terminal_); }

void Output::Write(std::string_view text, bool faint) {
  if (text.empty()) return;
  const std::string shown = text_is_terminal_ ? VisibleText(text) : std::string(text);
  ClearStatus();
  if (shared_terminal_) {
    const size_t feed = shown.rfind('\n');
    if (feed != std::string::npos) text_line_.clear();
    text_line_ += feed == std::string::npos ? shown : shown.substr(feed + 1);
    if (text_line_.size() > kLongestTextLineBytes) text_line_.resize(kLongestTextLineBytes);
  }
  const bool written =
      WriteAll(STDOUT_FILENO, faint ? fmt::format("{}{}{}", kFaint, shown, kNotFaint) : shown);
  if (written) return;
  broken_ = true;
  Fail(ErrorKind::kIo, "cannot write to standard output: {}",
       std::generic_category().message(errno));
}

void Output::Note(std::string_view line) {
  if (!quiet_) WriteLine(TextFor(STDERR_FILENO, line));
}

void Output::Warning(std::string_view line) { WriteLine(TextFor(STDERR_FILENO, line)); }

void Output::Problem(std::string_view line) {
  WriteLine("kimi_k3: " + TextFor(STDERR_FILENO, line));
}

void Output::WriteLine(std::string_view line) {
  ClearStatus();
  const bool within_text = shared_terminal_ && !text_line_.empty();
  text_line_.clear();
  WriteAll(STDERR_FILENO, fmt::format("{}{}\n", within_text ? "\n" : "", line));
}

bool Output::WantsStatus() const {
  return !quiet_ && std::chrono::steady_clock::now() >= next_status_;
}

bool Output::TextFillsRow(size_t width) const {
  return text_line_.size() == kLongestTextLineBytes || ColumnAfter(text_line_, width) == width;
}

void Output::StatusAsLine(std::string_view line) {
  if (!WantsStatus()) return;
  WriteLine(line);
  ++lines_;
  next_status_ =
      std::chrono::steady_clock::now() + (lines_ < kLinesAtFirst ? pace_.next : pace_.later);
}

void Output::Status(std::string_view line) {
  if (quiet_) return;
  if (!status_is_terminal_) return StatusAsLine(line);
  const size_t width = StatusWidth();
  const std::string_view shown = line.substr(0, width - 1);
  next_status_ = std::chrono::steady_clock::now() + kStatusInterval;
  if (!shared_terminal_) {
    status_shown_ = true;
    WriteAll(STDERR_FILENO, fmt::format("\r{}{}", shown, kEraseBelow));
    return;
  }
  if (TextFillsRow(width)) return;
  status_shown_ = true;
  WriteAll(STDERR_FILENO, fmt::format("{}{}{}{}{}\x1b[0m{}{}", kMakeRoomBelow, kSaveCursor,
                                      kNextRow, kFaint, shown, kEraseBelow, kRestoreCursor));
}

void Output::ClearStatus() {
  if (!status_shown_) return;
  status_shown_ = false;
  WriteAll(STDERR_FILENO, shared_terminal_ ? fmt::format("{}{}{}{}", kSaveCursor, kNextRow,
                                                         kEraseBelow, kRestoreCursor)
                                           : fmt::format("\r{}", kEraseBelow));
}

}  // namespace kimi_k3
