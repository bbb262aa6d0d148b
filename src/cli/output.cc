// Standard output and error of the program: text at once, one live status line below it.
#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr auto kStatusInterval = std::chrono::milliseconds(100);

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

size_t TerminalWidth() {
  struct winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

}  // namespace

Output::Output(bool quiet)
    : quiet_(quiet),
      text_is_terminal_(isatty(STDOUT_FILENO) != 0),
      status_is_terminal_(isatty(STDERR_FILENO) != 0) {}

Output::~Output() { ClearStatus(); }

void Output::Text(std::string_view text) {
  if (text.empty()) return;
  ClearStatus();
  if (!WriteAll(STDOUT_FILENO, text)) {
    Fail(ErrorKind::kIo, "cannot write to standard output: {}",
         std::generic_category().message(errno));
  }
}

void Output::FaintText(std::string_view text) {
  if (text.empty()) return;
  Text(text_is_terminal_ ? fmt::format("\x1b[2m{}\x1b[22m", text) : std::string(text));
}

void Output::Note(std::string_view line) {
  if (quiet_) return;
  ClearStatus();
  WriteAll(STDERR_FILENO, fmt::format("{}\n", line));
}

bool Output::WantsStatus() const {
  return !quiet_ && status_is_terminal_ && std::chrono::steady_clock::now() >= next_status_;
}

void Output::Status(std::string_view line) {
  next_status_ = std::chrono::steady_clock::now() + kStatusInterval;
  status_shown_ = true;
  const std::string_view shown = line.substr(0, TerminalWidth() - 1);
  if (text_is_terminal_) {
    // Down and up again, so that there is a line below; then write there and come back.
    WriteAll(STDERR_FILENO, fmt::format("\x1b"
                                        "D\x1bM\x1b"
                                        "7\x1b"
                                        "E\x1b[2m{}\x1b[0m\x1b[K\x1b"
                                        "8",
                                        shown));
  } else {
    WriteAll(STDERR_FILENO, fmt::format("\r{}\x1b[K", shown));
  }
}

void Output::ClearStatus() {
  if (!status_shown_) return;
  status_shown_ = false;
  WriteAll(STDERR_FILENO, text_is_terminal_ ? "\x1b"
                                              "7\x1b"
                                              "E\x1b[K\x1b"
                                              "8"
                                            : "\r\x1b[K");
}

}  // namespace kimi_k3
