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
// sequences (docs/model.md section 3, KDA). x, a: [rows, hidden].
void KdaAttention(const Compute& compute, size_t layer, const KdaVectors& vectors,
                  std::span<const RowRun> runs, RowsView x, RowsView a, Workspace& workspace);

}  // namespace kimi_k3
