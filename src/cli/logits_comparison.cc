// How far the predictions of one run of a model are from those of another, over a text.
#include "cli/logits_comparison.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/likely_tokens.h"

namespace kimi_k3 {
namespace {

size_t FirstChoice(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

// Sum of p (log p - log q).
double Divergence(std::span<const float> exact, std::span<const float> logits, double log_sum) {
  const double exact_log_sum = LogSumExp(exact);
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double log_p = double{exact[i]} - exact_log_sum;
    sum += std::exp(log_p) * (log_p - (double{logits[i]} - log_sum));
  }
  return std::max(sum, 0.0);  // below zero by rounding alone
}

}  // namespace

void LogitsComparison::Add(std::span<const float> logits, TokenId next) {
  ++positions_;
  nats_ += LogSumExp(logits) - double{logits[static_cast<size_t>(next)]};
}

void LogitsComparison::Add(std::span<const float> logits, TokenId next,
                           std::span<const float> exact) {
  Add(logits, next);
  ++compared_;
  const double divergence = Divergence(exact, logits, LogSumExp(logits));
  divergence_ += divergence;
  largest_divergence_ = std::max(largest_divergence_, divergence);
  if (FirstChoice(logits) == FirstChoice(exact)) ++same_first_choice_;
}

double LogitsComparison::bits() const { return nats_ / std::numbers::ln2; }

double LogitsComparison::mean_divergence() const {
  return compared_ == 0 ? 0 : divergence_ / static_cast<double>(compared_);
}

double LogitsComparison::same_first_choice() const {
  return compared_ == 0 ? 0
                        : static_cast<double>(same_first_choice_) / static_cast<double>(compared_);
}

}  // namespace kimi_k3
