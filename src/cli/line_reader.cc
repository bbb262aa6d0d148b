// Lines that a person types: with editing and history on a terminal, plain from a pipe.
#include "cli/line_reader.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <system_error>

#include "base/error.h"
#include "cli/interrupt.h"

namespace kimi_k3 {
namespace {

constexpr int kHistoryLines = 1000;
constexpr size_t kLongestLineBytes = size_t{1} << 28;
constexpr size_t kBlockBytes = size_t{1} << 16;
// How long a wish to stop may go unseen.
constexpr int kWaitMilliseconds = 100;

// Characters of several bytes are edited as one only where the locale says so.
void UseUtf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Waits until something can be read; false where a signal came first.
bool AwaitInput() {
  pollfd waiting = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  do {
    if (InterruptGuard::Requested()) return false;
  } while (poll(&waiting, 1, kWaitMilliseconds) <= 0);
  return true;
}

// One character of the terminal: 1, 0 at the end, -1 at a signal or failure.
int ReadCharacter(wchar_t* character) {
  std::mbstate_t state = {};
  for (;;) {
    if (!AwaitInput()) {
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return static_cast<int>(n);
    const size_t used = std::mbrtowc(character, &byte, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // more bytes belong to it
    if (used == static_cast<size_t>(-1)) {
      state = {};
      continue;
    }
    if (used == 0) *character = L'\0';
    return 1;
  }
}

class TerminalReader : public LineReader {
 public:
  explicit TerminalReader(std::optional<std::filesystem::path> history_file)
      : history_file_(std::move(history_file)) {
    UseUtf8();
    edit_ = el_init("kimi_k3", stdin, stdout, stderr);
    history_ = history_init();
    if (edit_ == nullptr || history_ == nullptr) {
      Fail(ErrorKind::kIo, "cannot edit lines on this terminal");
    }
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &TerminalReader::Prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SIGNAL, 0);  // signals are the program's
    el_set(edit_, EL_GETCFN, &TerminalReader::NextCharacter);
    el_set(edit_, EL_HIST, history, history_);
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    if (history_file_ && std::filesystem::exists(*history_file_) &&
        history(history_, &event, H_LOAD, history_file_->c_str()) < 0) {
      Fail(ErrorKind::kIo, "--history: {} is no history file", history_file_->string());
    }
  }

  ~TerminalReader() override {
    if (history_ != nullptr) history_end(history_);
    if (edit_ != nullptr) el_end(edit_);
  }

  Line Read(const std::string& prompt) override {
    prompt_ = prompt;
    at_beginning_ = true;
    el_resize(edit_);
    int length = 0;
    const char* text = el_gets(edit_, &length);
    if (text == nullptr || length <= 0) {
      el_reset(edit_);
      const bool interrupted = InterruptGuard::Requested();
      std::fputs(interrupted ? "^C\n" : "\n", stdout);
      std::fflush(stdout);
      return {.kind = interrupted ? LineKind::kInterrupted : LineKind::kEnd,
              .text = {},
              .verbatim = false};
    }
    std::string line(text, static_cast<size_t>(length));
    if (line.ends_with('\n')) line.pop_back();
    return {.kind = LineKind::kLine, .text = std::move(line), .verbatim = false};
  }

  void Remember(const std::string& text) override {
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
    if (!history_file_) return;
    // What was typed is nobody else's business.
    const mode_t mask = umask(S_IRWXG | S_IRWXO);
    history(history_, &event, H_SAVE, history_file_->c_str());
    umask(mask);
  }

 private:
  static char* Prompt(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return static_cast<TerminalReader*>(self)->prompt_.data();
  }

  // For libedit, whose own reading does not end at a signal. What was typed before the terminal was
  // ready to edit has a zero where Ctrl-D was.
  static int NextCharacter(EditLine* edit, wchar_t* character) {
    constexpr wchar_t kCtrlD = 4;
    void* client = nullptr;
    el_get(edit, EL_CLIENTDATA, &client);
    auto* self = static_cast<TerminalReader*>(client);
    const int read = ReadCharacter(character);
    if (read == 1 && self->at_beginning_ && *character == L'\0') *character = kCtrlD;
    self->at_beginning_ = false;
    return read;
  }

  std::optional<std::filesystem::path> history_file_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
  bool at_beginning_ = true;  // no character of this line has been read
};

class PipeReader : public LineReader {
 public:
  Line Read(const std::string&) override {
    for (;;) {
      const size_t feed = text_.find('\n', searched_);
      if (feed != std::string::npos) return TakeLine(feed, feed + 1);
      searched_ = text_.size();
      if (ended_ && text_.empty()) return {};
      if (ended_) return TakeLine(text_.size(), text_.size());
      if (!Fill()) return {.kind = LineKind::kInterrupted, .text = {}, .verbatim = false};
    }
  }
  void Remember(const std::string&) override {}

 private:
  Line TakeLine(size_t size, size_t taken) {
    std::string line = text_.substr(0, size);
    text_.erase(0, taken);
    searched_ = 0;
    if (line.ends_with('\r')) line.pop_back();
    return {.kind = LineKind::kLine, .text = std::move(line), .verbatim = false};
  }

  // Reads more, or learns that nothing more comes; false where a signal came.
  bool Fill() {
    if (!AwaitInput()) return false;
    std::array<char, kBlockBytes> block;
    const ssize_t n = read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n < 0) {
      Fail(ErrorKind::kIo, "cannot read standard input: {}",
           std::generic_category().message(errno));
    }
    ended_ = n == 0;
    text_.append(block.data(), static_cast<size_t>(n));
    if (text_.size() > kLongestLineBytes) {
      Fail(ErrorKind::kUsage, "a line of standard input is longer than 256 MB");
    }
    return true;
  }

  std::string text_;
  size_t searched_ = 0;  // no line end before this place
  bool ended_ = false;
};

}  // namespace

bool PersonTypes() { return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

std::unique_ptr<LineReader> MakeTerminalReader(std::optional<std::filesystem::path> history) {
  return std::make_unique<TerminalReader>(std::move(history));
}

std::unique_ptr<LineReader> MakePipeReader() { return std::make_unique<PipeReader>(); }

}  // namespace kimi_k3
