// The live line of a run: phase, layer or token of how many, tokens per second, memory, time left.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/output.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Watches the passes of `engine` and shows where they stand on `output`; both must outlive it.
class Progress {
 public:
  Progress(Engine& engine, Output& output, size_t prompt_tokens, size_t max_tokens);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` tokens of the prompt are through.
  void PromptProgress(size_t done);
  // One more token has been generated.
  void Token();
  // Has `line` noted once the user asks to stop, which the run will follow only later.
  void AnswerWishToStop(std::string line);

 private:
  void Show(const PassProgress& pass);
  // ", 1.05 GB/s read (1.21 at best)", the best of any second of this run; empty while nothing is
  // known.
  std::string ReadRate();

  Engine& engine_;
  Output& output_;
  size_t prompt_tokens_;
  size_t max_tokens_;
  size_t prompt_done_ = 0;
  size_t tokens_ = 0;
  std::chrono::steady_clock::time_point phase_start_;
  std::chrono::steady_clock::time_point rate_since_;
  uint64_t bytes_then_;
  std::optional<double> bytes_per_second_;
  double best_bytes_per_second_ = 0;
  std::string answer_to_wish_;  // empty: none, or given
};

double SecondsSince(std::chrono::steady_clock::time_point start);

// "45 s", "3 min", "2 h 10 min", "6 days".
std::string FormatDuration(double seconds);

}  // namespace kimi_k3
