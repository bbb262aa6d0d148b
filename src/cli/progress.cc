// The live line of a run: phase, layer or token of how many, tokens per second, memory, time left.
#include "cli/progress.h"

#include <fmt/format.h>

#include <string>

#include "base/byte_size.h"
#include "base/process_meter.h"

namespace kimi_k3 {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// "45 s", "3 min", "2 h 10 min".
std::string Duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60 + 0.5);
  if (minutes < 90) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace

Progress::Progress(Engine& engine, Output& output, size_t prompt_tokens, size_t max_tokens)
    : engine_(engine),
      output_(output),
      prompt_tokens_(prompt_tokens),
      max_tokens_(max_tokens),
      phase_start_(std::chrono::steady_clock::now()) {
  engine_.SetProgress([this](const PassProgress& pass) {
    if (output_.WantsStatus()) Show(pass);
  });
}

Progress::~Progress() { engine_.SetProgress(nullptr); }

void Progress::PromptDone(size_t done) {
  prompt_done_ = done;
  if (done == prompt_tokens_) phase_start_ = std::chrono::steady_clock::now();
}

void Progress::Token() { ++tokens_; }

void Progress::Show(const PassProgress& pass) {
  const bool prompt = prompt_done_ < prompt_tokens_;
  const double layer_share = static_cast<double>(pass.layer) / static_cast<double>(pass.layers);
  // Tokens through the model in this phase, the pass in progress counted by its layers; the first
  // generated token came with the prompt.
  const size_t whole = prompt ? prompt_done_ : tokens_ - 1;
  const double done = static_cast<double>(whole) + layer_share * static_cast<double>(pass.rows);
  const size_t total = prompt ? prompt_tokens_ : max_tokens_ - 1;
  const double seconds = SecondsSince(phase_start_);
  const double rate = seconds > 0 ? done / seconds : 0;
  const std::string left =
      rate > 0 ? Duration((static_cast<double>(total) - done) / rate) : std::string("?");
  output_.Status(fmt::format(
      "{} {} of {}, layer {}/{}, {:.3g} tok/s, {} in memory, {}{} left",
      prompt ? "prompt" : "token", prompt ? prompt_done_ + pass.rows : tokens_ + 1,
      prompt ? prompt_tokens_ : max_tokens_, pass.layer, pass.layers, rate,
      FormatByteSize(ReadProcessMeters().resident_bytes), prompt ? "" : "at most ", left));
}

}  // namespace kimi_k3
