// What a pass over the weights costs by the number of its rows, as far as passes have shown.
#pragma once

#include <array>
#include <cstddef>

namespace kimi_k3 {

// A line through the passes seen, the latest of which count most. One thread at a time.
class PassCost {
 public:
  // A pass of so many rows (at least one) took so long.
  void Saw(size_t rows, double seconds);

  // What one row more adds to a pass of `rows`, as a share of what that pass costs.
  double RowShare(size_t rows) const;

  // The median of the latest 64 passes seen, in seconds; 0 before the first.
  double MedianSeconds() const;

 private:
  double share_ = 0.2;  // what a row more adds, as a share of a pass of one row
  // Of the passes seen, the latest counting most.
  double mean_rows_ = 0;  // 0: none
  double mean_seconds_ = 0;
  double rows_variance_ = 0;
  double covariance_ = 0;
  std::array<double, 64> latest_ = {};  // seconds, a ring
  size_t passes_ = 0;
};

}  // namespace kimi_k3
