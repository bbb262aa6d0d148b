// Scratch memory of one pass, sized once from the geometry and handed out layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/model_config.h"
#include "model/linear.h"
#include "residency/page_buffer.h"

namespace kimi_k3 {

// Activations of up to max_rows rows. Attention and feed-forward take turns with one scratch area.
class Workspace {
 public:
  // parts: the most parts that a parallel loop has (each needs attention scratch of its own).
  Workspace(const ModelConfig& config, size_t max_rows, size_t parts);

  size_t max_rows() const { return max_rows_; }

  // [max_rows, hidden] each.
  float* residual() { return residual_.data(); }  // p of docs/model.md section 3
  float* mixed() { return mixed_.data(); }        // x after an attention residual
  float* normed() { return normed_.data(); }      // input of attention or feed-forward
  float* output() { return output_.data(); }      // a or f
  // Block vector `block` of all rows: [max_rows, hidden].
  float* Block(size_t block) { return blocks_.data() + block * max_rows_ * hidden_; }

  // Takes the next [rows, width] of the scratch area.
  RowsView Take(size_t rows, size_t width);
  float* TakeFloats(size_t n);
  // Gives back all that was taken.
  void Release() { taken_ = 0; }

  // Bytes that a workspace of this size takes.
  static uint64_t Bytes(const ModelConfig& config, size_t max_rows, size_t parts);

 private:
  static size_t BlockCount(const ModelConfig& config);
  static size_t ScratchFloats(const ModelConfig& config, size_t max_rows, size_t parts);

  size_t max_rows_;
  size_t hidden_;
  PagedArray<float> residual_, mixed_, normed_, output_, blocks_, scratch_;
  size_t taken_ = 0;
};

// Rows up to which routed experts are taken as their reads land, each row's results being kept
// apart until they can be added in ascending order; above it they are taken in ascending order.
inline constexpr size_t kArrivalOrderRows = 8;

}  // namespace kimi_k3
