// Where a text stands, in words.
#include "server/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kimi_k3::server {
namespace {

std::string Duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, std::round(seconds)));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

std::string DescribeProgress(const TextProgress& progress) {
  std::string text;
  switch (progress.phase) {
    case TextProgress::Phase::kWaiting:
      return progress.ahead == 0 ? "waiting, next in line"
                                 : fmt::format("waiting, {} request{} before this one",
                                               progress.ahead, progress.ahead == 1 ? "" : "s");
    case TextProgress::Phase::kPrompt:
      text = fmt::format("prefill {}/{} layers, {} of {} tokens done", progress.layer,
                         progress.layers, progress.prompt_done, progress.prompt_tokens);
      break;
    case TextProgress::Phase::kAnswer:
      text = fmt::format("token {}, {}/{} layers", progress.generated + 1, progress.layer,
                         progress.layers);
      break;
    case TextProgress::Phase::kEnded:
      return "ended";
  }
  if (!progress.seconds_left) return text;
  const std::string time = Duration(*progress.seconds_left);
  return text + (progress.phase == TextProgress::Phase::kAnswer
                     ? fmt::format(", this token in about {}", time)
                     : fmt::format(", about {} left", time));
}

}  // namespace kimi_k3::server
