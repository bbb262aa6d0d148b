// The text of a prompt from a file, a pipe or standard input.
#include "cli/prompt_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/interrupt.h"

namespace kimi_k3 {
namespace {

// A million positions at the longest token, and far more than anyone waits for.
constexpr size_t kPromptLimitBytes = size_t{1} << 28;
constexpr size_t kBlockBytes = size_t{1} << 16;

// Opening a pipe waits for its writer, so an interruption must be able to end that.
UniqueFd OpenPrompt(const std::string& file) {
  for (;;) {
    UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid()) return fd;
    const int reason = errno;
    InterruptGuard::Check();
    if (reason == EINTR) continue;
    Fail(ErrorKind::kIo, "cannot read the prompt from {}: {}", file,
         std::generic_category().message(reason));
  }
}

}  // namespace

std::string ReadPromptText(const std::string& file) {
  const UniqueFd opened = file == "-" ? UniqueFd() : OpenPrompt(file);
  const std::string name = file == "-" ? "standard input" : file;
  const int fd = file == "-" ? STDIN_FILENO : opened.get();
  std::string text;
  std::array<char, kBlockBytes> block;
  for (;;) {
    const ssize_t n = read(fd, block.data(), block.size());
    const int reason = errno;
    InterruptGuard::Check();
    if (n < 0 && reason == EINTR) continue;
    if (n < 0) {
      Fail(ErrorKind::kIo, "cannot read the prompt from {}: {}", name,
           std::generic_category().message(reason));
    }
    if (n == 0) return text;
    text.append(block.data(), static_cast<size_t>(n));
    if (text.size() > kPromptLimitBytes) {
      Fail(ErrorKind::kUsage, "the prompt in {} is longer than {}", name,
           FormatByteSize(kPromptLimitBytes));
    }
  }
}

}  // namespace kimi_k3
