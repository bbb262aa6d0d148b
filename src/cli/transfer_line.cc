// The live line of something that takes hours: done, of how much, how fast, how long yet.
#include "cli/transfer_line.h"

#include <fmt/format.h>

#include <cmath>

#include "base/byte_size.h"
#include "cli/progress.h"

namespace kimi_k3 {
namespace {

constexpr double kLeastSeconds = 0.5;
constexpr double kMemorySeconds = 15;

}  // namespace

double TransferRate::Update(uint64_t bytes) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (seconds < kLeastSeconds && begun_) return rate_;
  if (!begun_ && bytes == then_) {
    if (seconds >= kLeastSeconds) since_ = now;
    return 0;
  }
  if (seconds < kLeastSeconds) return 0;
  const double fresh = static_cast<double>(bytes - then_) / seconds;
  const double weight = begun_ ? 1 - std::exp(-seconds / kMemorySeconds) : 1;
  rate_ += weight * (fresh - rate_);
  begun_ = true;
  since_ = now;
  then_ = bytes;
  return rate_;
}

std::string TransferText(uint64_t done, uint64_t total, double bytes_per_second) {
  std::string text = fmt::format("{} of {}", FormatByteSize(done), FormatByteSize(total));
  if (bytes_per_second < 1) return text;
  text += fmt::format(", {}/s", FormatByteSize(static_cast<uint64_t>(bytes_per_second)));
  if (done < total) {
    text += fmt::format(", {} left",
                        FormatDuration(static_cast<double>(total - done) / bytes_per_second));
  }
  return text;
}

}  // namespace kimi_k3
