// Which experts a row goes to, and with what weights.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kimi_k3::kernels {

// docs/model.md section 3, Latent MoE.
struct RouterRule {
  bool softmax = false;  // else sigmoid
  size_t experts = 0;
  size_t top_k = 0;
  size_t groups = 1;
  size_t groups_kept = 1;
  bool renormalize = true;
  float scaling = 1.0F;
  // Experts that can be picked, both ends included: the others are scored, but count as minus
  // infinity when it comes to picking, as do groups with fewer than two that can.
  size_t first_present = 0;
  size_t last_present = SIZE_MAX;
};

// logits: [experts], turned into scores s in place. Picks the top_k largest of s + bias (ties go to
// the lower index; with groups, from the groups_kept best groups by the sum of their two best;
// other experts count as minus infinity), writes them in ASCENDING expert order to ids[top_k] and
// their weights (from s without the bias, renormalised by sum + 1e-20 if asked and top_k > 1, then
// scaled) to weights[top_k]. The weights are summed in descending order of s + bias, as they were
// picked. scratch: experts floats. Returns false, picking nothing, where a logit or a biased score
// is not finite, or top_k is not in 1 .. experts. REQUIRES: top_k present experts in the groups
// that are kept, whichever these are.
bool RouteRow(const RouterRule& rule, float* logits, const float* bias, float* scratch,
              int32_t* ids, float* weights);

}  // namespace kimi_k3::kernels
