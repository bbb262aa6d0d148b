// Choosing the next token from logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// How the next token is chosen. Applied in this order: repetition penalty, temperature, top-k,
// top-p, min-p, draw. The defaults are greedy.
struct SamplingOptions {
  float temperature = 0.0F;  // 0: the most likely token (ties: the lowest id), nothing is drawn
  size_t top_k = 0;          // keep the k most likely; 0: all
  float top_p = 1.0F;        // keep the fewest most likely whose sum reaches p; 1: all
  float min_p = 0.0F;        // keep those at least min_p times as likely as the most likely
  float repeat_penalty =
      1.0F;                 // divides positive logits of recent tokens, multiplies negative ones
  size_t repeat_last = 64;  // how many recent tokens count as recent; 0: all
  uint64_t seed = 0;
};

// Throws Error(kUsage) naming the option for a value outside its range: temperature >= 0,
// 0 <= top_p <= 1, 0 <= min_p <= 1, repeat_penalty > 0, all finite.
void CheckSamplingOptions(const SamplingOptions& options);

// Draws the tokens of one sequence. The draw for position n depends on the seed, n and the logits
// alone, so a sequence's text does not depend on what runs beside it, and a sequence resumed at
// position n goes on as if it had never stopped. One thread at a time.
class Sampler {
 public:
  // Throws as CheckSamplingOptions.
  explicit Sampler(const SamplingOptions& options);

  // The next token after `history` (prompt and answer so far). logits: one number for each token,
  // finite.
  TokenId Sample(std::span<const float> logits, std::span<const TokenId> history);

 private:
  struct Candidate {
    float logit;
    TokenId token;
  };
  void Penalize(std::span<const TokenId> history);
  TokenId Draw(size_t position);
  void KeepTopK();
  double KeepLikely(double total);
  static bool MoreLikely(const Candidate& a, const Candidate& b);

  SamplingOptions options_;
  std::vector<Candidate> candidates_;
};

}  // namespace kimi_k3
