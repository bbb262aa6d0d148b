// The text of a prompt from a file, a pipe or standard input.
#include "cli/prompt_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/interrupt.h"

namespace kimi_k3 {
namespace {

// A million positions at the longest token, and far more than anyone waits for.
constexpr size_t kPromptLimitBytes = size_t{1} << 28;
constexpr size_t kPromptBlockBytes = size_t{1} << 16;

// How long a wish to stop may go unseen.
constexpr int kPromptWaitMilliseconds = 100;

[[noreturn]] void FailToRead(const std::string& name, int reason) {
  Fail(ErrorKind::kIo, "cannot read {}: {}", name, std::generic_category().message(reason));
}

// A pipe without a writer is opened at once, and waited for like any other input.
UniqueFd OpenPrompt(const std::string& file) {
  UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) FailToRead(file, errno);
  return fd;
}

void AwaitInput(int fd) {
  pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
  do {
    InterruptGuard::Check();
  } while (poll(&waiting, 1, kPromptWaitMilliseconds) <= 0);
}

}  // namespace

std::string ReadPromptText(const std::string& file) {
  const UniqueFd opened = file == "-" ? UniqueFd() : OpenPrompt(file);
  const std::string name = file == "-" ? "standard input" : file;
  const int fd = file == "-" ? STDIN_FILENO : opened.get();
  if (isatty(fd) != 0) std::fputs("reading from the terminal; Ctrl-D ends the text\n", stderr);
  std::string text;
  std::array<char, kPromptBlockBytes> block;
  for (;;) {
    AwaitInput(fd);
    const ssize_t n = read(fd, block.data(), block.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) FailToRead(name, errno);
    if (n == 0) return text;
    text.append(block.data(), static_cast<size_t>(n));
    if (text.size() > kPromptLimitBytes) {
      Fail(ErrorKind::kUsage, "{} holds more than {}", name, FormatByteSize(kPromptLimitBytes));
    }
  }
}

}  // namespace kimi_k3
