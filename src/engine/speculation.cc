// How many guesses at what comes next are worth checking, and what they are.
#include "engine/speculation.h"

#include <algorithm>

namespace kimi_k3 {
namespace {

// How fast what was seen is forgotten.
constexpr double kNewGuess = 0.15;
constexpr double kNewCost = 0.2;

// Passes without a guess after which one is tried.
constexpr size_t kPassesToTrial = 32;

void Blend(double& value, double seen, double weight) { value += weight * (seen - value); }

}  // namespace

size_t Speculation::BestLength() const {
  size_t best = 0;
  double best_rate = 1;
  double tokens = 1;
  double likely = 1;  // that all guesses so far are right
  for (size_t n = 1; n <= most_; ++n) {
    likely *= right_share_;
    tokens += likely;
    const double rate = tokens / (1 + static_cast<double>(n) * guess_share_);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = n;
  }
  return best;
}

std::vector<TokenId> Speculation::Propose(std::span<const TokenId> text, size_t room) {
  size_t length = BestLength();
  if (length == 0 && ++left_out_ >= kPassesToTrial) length = 1;
  length = std::min({length, room, most_});
  if (length == 0) return {};
  std::vector<TokenId> guesses = drafter_.Propose(text, length);
  if (guesses.size() > length) guesses.resize(length);
  if (!guesses.empty()) left_out_ = 0;
  return guesses;
}

void Speculation::Checked(size_t proposed, size_t right, double seconds) {
  for (size_t i = 0; i < right; ++i) Blend(right_share_, 1, kNewGuess);
  if (right < proposed) Blend(right_share_, 0, kNewGuess);
  const auto n = static_cast<double>(proposed);
  if (plain_seconds_ == 0) {
    plain_seconds_ = seconds / (1 + n * guess_share_);
  } else if (proposed == 0) {
    Blend(plain_seconds_, seconds, kNewCost);
  } else {
    // The pass itself may have become slower or faster meanwhile.
    const double share = std::clamp((seconds / plain_seconds_ - 1) / n, 0.0, 1.0);
    Blend(guess_share_, share, kNewCost);
    Blend(plain_seconds_, seconds / (1 + n * guess_share_), kNewCost / 4);
  }
}

}  // namespace kimi_k3
