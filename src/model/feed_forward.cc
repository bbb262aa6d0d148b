// The dense feed-forward of the first layers, and the activation that every feed-forward shares.
#include "model/feed_forward.h"

#include "kernels/elementwise.h"

namespace kimi_k3 {
namespace {

// Elements below this many are not worth sharing.
constexpr size_t kActivationGrain = 512;

}  // namespace

void GatedActivation(const ModelConfig& config, const float* gate, const float* up, float* out,
                     size_t n) {
  if (config.activation == Activation::kSitu) {
    kernels::SituGlu(gate, up, config.situ_beta, config.situ_linear_beta, out, n);
  } else {
    kernels::SiluGlu(gate, up, out, n);
  }
}

void ActivateRows(const Compute& compute, RowsView gate, RowsView up) {
  // Both views are dense, so that all rows are one run of numbers.
  const size_t n = gate.count * gate.stride;
  compute.parallel.For(n, kActivationGrain, [&](size_t, size_t begin, size_t end) {
    GatedActivation(compute.config, gate.data + begin, up.data + begin, gate.data + begin,
                    end - begin);
  });
}

void DenseFeedForward(const Compute& compute, size_t layer, RowsView x, RowsView f,
                      Workspace& workspace) {
  const RowsView gate = workspace.Take(x.count, compute.config.dense_intermediate);
  const RowsView up = workspace.Take(x.count, compute.config.dense_intermediate);
  Project(compute, {Role::kDenseGate, layer}, x, gate);
  Project(compute, {Role::kDenseUp, layer}, x, up);
  ActivateRows(compute, gate, up);
  Project(compute, {Role::kDenseDown, layer}, gate, f);
  workspace.Release();
}

}  // namespace kimi_k3
