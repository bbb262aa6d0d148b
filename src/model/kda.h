// Kimi delta attention: linear attention with a gated delta rule.
#pragma once

#include <cstddef>
#include <span>

#include "model/layer_vectors.h"
#include "model/linear.h"
#include "model/rows.h"
#include "model/workspace.h"

namespace kimi_k3 {

// a[r] = KDA of x[r] for every row, advancing the KDA state and the convolution tails of the rows'
// sequences (docs/model.md section 3, KDA). Tentative rows leave what they would advance them by
// with their sequence instead. x, a: [rows, hidden].
void KdaAttention(const Compute& compute, size_t layer, const KdaVectors& vectors,
                  std::span<const RowRun> runs, RowsView x, RowsView a, Workspace& workspace);

// Advances the KDA state and the convolution tails of `layer` by the first `count` tentative rows
// of `sequence`, for the heads first_head .. last_head - 1 alone. scratch: [head_dim].
void AdvanceByTentativeRows(const ModelConfig& config, size_t layer, SequenceState& sequence,
                            size_t count, size_t first_head, size_t last_head, float* scratch);

}  // namespace kimi_k3
