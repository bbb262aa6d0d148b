// What a pass over the weights costs by the number of its rows, as far as passes have shown.
#include "engine/pass_cost.h"

#include <algorithm>

namespace kimi_k3 {
namespace {

// Of the latest pass.
constexpr double kWeight = 0.15;

// How much what was known before counts beside what passes show, as a variance of their rows:
// passes that all have the same number of rows show nothing.
constexpr double kTrust = 0.5;

}  // namespace

void PassCost::Saw(size_t rows, double seconds) {
  latest_[passes_++ % latest_.size()] = seconds;
  const auto count = static_cast<double>(rows);
  if (mean_rows_ == 0) {
    mean_rows_ = count;
    mean_seconds_ = seconds;
    return;
  }
  const double more_rows = count - mean_rows_;
  const double more_seconds = seconds - mean_seconds_;
  mean_rows_ += kWeight * more_rows;
  mean_seconds_ += kWeight * more_seconds;
  rows_variance_ = (1 - kWeight) * (rows_variance_ + kWeight * more_rows * more_rows);
  covariance_ = (1 - kWeight) * (covariance_ + kWeight * more_rows * more_seconds);
  const double known = share_ * mean_seconds_ / (1 + (mean_rows_ - 1) * share_);
  const double shown = (covariance_ + kTrust * known) / (rows_variance_ + kTrust);
  const double per_row = std::clamp(shown, 0.0, mean_seconds_ / mean_rows_);
  const double one_row = mean_seconds_ - (mean_rows_ - 1) * per_row;
  share_ = one_row > 0 ? std::min(per_row / one_row, 1.0) : 1.0;
}

double PassCost::RowShare(size_t rows) const {
  const double others = rows > 1 ? static_cast<double>(rows - 1) : 0;
  return share_ / (1 + others * share_);
}

double PassCost::MedianSeconds() const {
  if (passes_ == 0) return 0;
  auto sorted = latest_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(passes_, sorted.size()));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

}  // namespace kimi_k3
