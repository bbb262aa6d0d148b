// The live line of a run: phase, layer or token of how many, tokens per second, memory, time left.
#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/process_meter.h"
#include "cli/interrupt.h"

namespace kimi_k3 {
namespace {

// The time over which reading speed is averaged.
constexpr double kRateSeconds = 1.0;

}  // namespace

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Progress::Progress(Engine& engine, Output& output, size_t prompt_tokens, size_t max_tokens)
    : engine_(engine),
      output_(output),
      prompt_tokens_(prompt_tokens),
      max_tokens_(max_tokens),
      phase_start_(std::chrono::steady_clock::now()),
      rate_since_(phase_start_),
      bytes_then_(engine.counters().bytes_read()) {
  Show({.layer = 0, .layers = engine_.layers(), .rows = 0});
  engine_.SetProgress([this](const PassProgress& pass) {
    if (!answer_to_wish_.empty() && InterruptGuard::Requested()) {
      output_.Note(std::exchange(answer_to_wish_, {}));
    }
    if (output_.WantsStatus()) Show(pass);
  });
}

Progress::~Progress() { engine_.SetProgress(nullptr); }

void Progress::PromptProgress(size_t done) {
  prompt_done_ = done;
  if (done == prompt_tokens_) phase_start_ = std::chrono::steady_clock::now();
}

void Progress::Token() { ++tokens_; }

void Progress::AnswerWishToStop(std::string line) { answer_to_wish_ = std::move(line); }

std::string Progress::ReadRate() {
  const double seconds = SecondsSince(rate_since_);
  if (seconds >= kRateSeconds) {
    const uint64_t bytes = engine_.counters().bytes_read();
    bytes_per_second_ = static_cast<double>(bytes - bytes_then_) / seconds;
    rate_since_ = std::chrono::steady_clock::now();
    bytes_then_ = bytes;
    best_bytes_per_second_ = std::max(best_bytes_per_second_, *bytes_per_second_);
  }
  if (!bytes_per_second_) return {};
  return fmt::format(", {}/s read ({}/s at best)",
                     FormatByteSize(static_cast<uint64_t>(*bytes_per_second_)),
                     FormatByteSize(static_cast<uint64_t>(best_bytes_per_second_)));
}

void Progress::Show(const PassProgress& pass) {
  const bool prompt = prompt_done_ < prompt_tokens_;
  // Tokens that went through the model in this phase, those of the pass in progress counted by its
  // layers. The first generated token came with the prompt, the last needs no pass.
  const double whole = static_cast<double>(prompt ? prompt_done_ : tokens_ - 1);
  const double total = static_cast<double>(prompt ? prompt_tokens_ : max_tokens_ - 1);
  const double layer_share = static_cast<double>(pass.layer) / static_cast<double>(pass.layers);
  const double done = whole + layer_share * static_cast<double>(pass.rows);
  const double rate = done / SecondsSince(phase_start_);
  // The most wanted comes first: a narrow terminal cuts the end.
  std::string line = prompt ? fmt::format("prompt: {} of {} tokens done, layer {} of {}",
                                          prompt_done_, prompt_tokens_, pass.layer, pass.layers)
                            : fmt::format("token {} of {}, layer {} of {}", tokens_ + 1,
                                          max_tokens_, pass.layer, pass.layers);
  if (done > 0) {
    line += rate < 100 ? fmt::format(", {:.3g} tokens/s", rate)
                       : fmt::format(", {:.0f} tokens/s", rate);
    line +=
        fmt::format(", {}{} left", prompt ? "" : "at most ", FormatDuration((total - done) / rate));
  }
  line += ReadRate();
  line += fmt::format(", {} of {} in memory", FormatByteSize(ReadProcessMeters().resident_bytes),
                      FormatByteSize(engine_.memory_budget_bytes()));
  output_.Status(line);
}

std::string FormatDuration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  const int64_t minutes = std::llround(seconds / 60);
  if (minutes < 90) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{:.3g} days", seconds / 86400);
}

}  // namespace kimi_k3
