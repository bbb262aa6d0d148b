// Choosing the next token from logits.
#include "kimi_k3/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "kernels/elementwise.h"

namespace kimi_k3 {
namespace {

// Keeps an extreme penalty from making a logit infinite, whose differences are not numbers.
constexpr float kMostLogit = std::numeric_limits<float>::max();

void Require(bool valid, const char* option, const char* range, float value) {
  if (!valid) Fail(ErrorKind::kUsage, "{} must be {}, not {}", option, range, value);
}

// SplitMix64 (Steele, Lea, Flood 2014) of seed and position: a number in [0, 1).
double UniformAt(uint64_t seed, uint64_t position) {
  uint64_t z = seed + (position + 1) * 0x9e3779b97f4a7c15U;
  for (int round = 0; round < 2; ++round) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
  }
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

}  // namespace

void CheckSamplingOptions(const SamplingOptions& options) {
  Require(std::isfinite(options.temperature) && options.temperature >= 0, "temperature",
          "0 or more", options.temperature);
  Require(options.top_p >= 0 && options.top_p <= 1, "top-p", "between 0 and 1", options.top_p);
  Require(options.min_p >= 0 && options.min_p <= 1, "min-p", "between 0 and 1", options.min_p);
  Require(std::isfinite(options.repeat_penalty) && options.repeat_penalty > 0, "repeat-penalty",
          "above 0", options.repeat_penalty);
}

Sampler::Sampler(const SamplingOptions& options) : options_(options) {
  CheckSamplingOptions(options);
}

TokenId Sampler::Sample(std::span<const float> logits, std::span<const TokenId> history) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {.logit = logits[i], .token = static_cast<TokenId>(i)};
  }
  if (options_.repeat_penalty != 1.0F) Penalize(history);
  if (options_.temperature == 0.0F) {
    return std::ranges::max_element(candidates_, {}, &Candidate::logit)->token;
  }
  return Draw(history.size());
}

void Sampler::Penalize(std::span<const TokenId> history) {
  if (options_.repeat_last != 0 && history.size() > options_.repeat_last) {
    history = history.last(options_.repeat_last);
  }
  const std::unordered_set<TokenId> recent(history.begin(), history.end());
  for (const TokenId token : recent) {
    if (token < 0 || static_cast<size_t>(token) >= candidates_.size()) continue;
    float& logit = candidates_[static_cast<size_t>(token)].logit;
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit = std::clamp(logit, -kMostLogit, kMostLogit);
  }
}

// Probabilities relative to the most likely candidate; what the filters leave is drawn from in
// descending order of likelihood, or in order of ids where nothing is filtered.
TokenId Sampler::Draw(size_t position) {
  if (options_.top_k != 0 && options_.top_k < candidates_.size()) KeepTopK();
  const float best = std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.logit = kernels::Exp((candidate.logit - best) / options_.temperature);
    total += static_cast<double>(candidate.logit);
  }
  if (options_.top_p < 1.0F || options_.min_p > 0.0F) total = KeepLikely(total);
  double left = UniformAt(options_.seed, position) * total;
  // Rounding may leave a little over: then the last candidate that is likely at all is drawn.
  TokenId drawn = candidates_.front().token;
  for (const Candidate& candidate : candidates_) {
    if (candidate.logit <= 0) continue;
    drawn = candidate.token;
    left -= static_cast<double>(candidate.logit);
    if (left < 0) break;
  }
  return drawn;
}

void Sampler::KeepTopK() {
  const auto kept = candidates_.begin() + static_cast<ptrdiff_t>(options_.top_k);
  std::nth_element(candidates_.begin(), kept, candidates_.end(), MoreLikely);
  candidates_.erase(kept, candidates_.end());
  std::ranges::sort(candidates_, MoreLikely);
}

// top-p and min-p: a heap gives the candidates in descending order, only as far as they are wanted.
double Sampler::KeepLikely(double total) {
  const auto less_likely = [](const Candidate& a, const Candidate& b) { return MoreLikely(b, a); };
  std::ranges::make_heap(candidates_, less_likely);
  const double wanted = static_cast<double>(options_.top_p) * total;
  std::vector<Candidate> kept;
  double sum = 0;
  while (!candidates_.empty() && (kept.empty() || sum < wanted)) {
    std::ranges::pop_heap(candidates_, less_likely);
    const Candidate next = candidates_.back();
    candidates_.pop_back();
    if (!kept.empty() && next.logit < options_.min_p * kept.front().logit) break;
    kept.push_back(next);
    sum += static_cast<double>(next.logit);
  }
  candidates_ = std::move(kept);
  return sum;
}

bool Sampler::MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

}  // namespace kimi_k3
