// Gated multi-head latent attention, absorbed: the latent cache is never expanded.
#pragma once

#include <cstddef>
#include <span>

#include "model/layer_vectors.h"
#include "model/linear.h"
#include "model/rows.h"
#include "model/workspace.h"

namespace kimi_k3 {

// a[r] = MLA of x[r] for every row, adding the rows' latents to their sequences' caches
// (docs/model.md section 3, Gated MLA). x, a: [rows, hidden].
void MlaAttention(const Compute& compute, size_t layer, const MlaVectors& vectors,
                  std::span<const RowRun> runs, RowsView x, RowsView a, Workspace& workspace);

}  // namespace kimi_k3
