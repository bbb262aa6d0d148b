// Reads the lines of a file one after another, in bounded memory.
#include "cli/line_scanner.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

LineScanner::LineScanner(const UniqueFd& fd, std::filesystem::path path, uint64_t most_bytes)
    : fd_(fd), path_(std::move(path)), most_bytes_(most_bytes), buffer_(kBufferBytes) {}

bool LineScanner::Fill() {
  for (;;) {
    const ssize_t n = pread(fd_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(offset_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Fail(ErrorKind::kIo, "{}: cannot read at offset {}: {}", path_.string(), offset_,
           std::generic_category().message(errno));
    }
    at_ = 0;
    end_ = static_cast<size_t>(n);
    return n > 0;
  }
}

std::optional<ScannedLine> LineScanner::Next() {
  ScannedLine line = {.number = ++number_, .offset = offset_, .text = {}, .ended = false};
  line_.clear();
  while (!line.ended && (at_ < end_ || Fill())) {
    const auto begin = buffer_.begin() + static_cast<ptrdiff_t>(at_);
    const auto end = buffer_.begin() + static_cast<ptrdiff_t>(end_);
    const auto feed = std::find(begin, end, '\n');
    const auto bytes = static_cast<size_t>(feed - begin);
    line.ended = feed != end;
    line.bytes += bytes;
    if (line.bytes <= most_bytes_) line_.append(begin, feed);
    const size_t taken = bytes + (line.ended ? 1 : 0);
    at_ += taken;
    offset_ += taken;
  }
  if (!line.ended && line.bytes == 0) return std::nullopt;
  line.too_long = line.bytes > most_bytes_;
  if (line.too_long) line_.clear();
  line.text = line_;
  return line;
}

}  // namespace kimi_k3
