// The dense feed-forward of the first layers, and the activation that every feed-forward shares.
#pragma once

#include <cstddef>

#include "model/linear.h"
#include "model/workspace.h"

namespace kimi_k3 {

// out[i] = act(gate[i], up[i]): SiTU-GLU or SwiGLU as the config says. out may be gate.
void GatedActivation(const ModelConfig& config, const float* gate, const float* up, float* out,
                     size_t n);

// GatedActivation of every row, the rows shared out; the result stands in gate.
void ActivateRows(const Compute& compute, RowsView gate, RowsView up);

// f[r] = down(act(gate x[r], up x[r])). x, f: [rows, hidden].
void DenseFeedForward(const Compute& compute, size_t layer, RowsView x, RowsView f,
                      Workspace& workspace);

}  // namespace kimi_k3
