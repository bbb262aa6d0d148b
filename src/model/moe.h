// The mixture of experts: router, routed experts in their latent width, shared experts.
#pragma once

#include <cstddef>
#include <span>

#include "model/layer_vectors.h"
#include "model/linear.h"
#include "model/rows.h"
#include "model/workspace.h"

namespace kimi_k3 {

// f[r] = MoE of x[r] for every row (docs/model.md section 3, Latent MoE). x, f: [rows, hidden]. A
// row's experts are added in ascending order whatever the order in which they arrive. Throws
// Error(kRun) that names layer and position where a router score is not finite.
void MoeFeedForward(const Compute& compute, size_t layer, const MoeVectors& vectors,
                    std::span<const RowRun> runs, RowsView x, RowsView f, Workspace& workspace);

}  // namespace kimi_k3
