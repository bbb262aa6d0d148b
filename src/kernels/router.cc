// Routing one row: scores, the choice of groups and experts, their weights.
#include "kernels/router.h"

#include <algorithm>
#include <limits>

#include "kernels/elementwise.h"

namespace kimi_k3::kernels {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

void Softmax(float* logits, size_t n) {
  const float largest = *std::max_element(logits, logits + n);
  float sum = 0.0F;
  for (size_t i = 0; i < n; ++i) {
    logits[i] = Exp(logits[i] - largest);
    sum += logits[i];
  }
  for (size_t i = 0; i < n; ++i) logits[i] /= sum;
}

// The sum of the two best of a group (of one expert: that one).
float GroupScore(const float* biased, size_t group_size) {
  float best = kMinusInfinity;
  float second = kMinusInfinity;
  for (size_t i = 0; i < group_size; ++i) {
    if (biased[i] > best) {
      second = best;
      best = biased[i];
    } else if (biased[i] > second) {
      second = biased[i];
    }
  }
  return group_size == 1 ? best : best + second;
}

// Whether group a comes before group b: the larger score, then the lower index.
bool GroupPrecedes(float score_a, size_t a, float score_b, size_t b) {
  return score_a > score_b || (score_a == score_b && a < b);
}

// Sets the experts of all but the `kept` best groups to minus infinity. Walks down the order of the
// groups instead of storing it.
void MaskGroups(float* biased, size_t experts, size_t groups, size_t kept) {
  const size_t size = experts / groups;
  size_t last = 0;
  float last_score = 0.0F;
  for (size_t k = 0; k < kept; ++k) {
    size_t next = groups;
    float next_score = 0.0F;
    for (size_t g = 0; g < groups; ++g) {
      const float score = GroupScore(biased + g * size, size);
      const bool taken = k > 0 && !GroupPrecedes(last_score, last, score, g);
      if (!taken && (next == groups || GroupPrecedes(score, g, next_score, next))) {
        next = g;
        next_score = score;
      }
    }
    last = next;
    last_score = next_score;
  }
  for (size_t g = 0; g < groups; ++g) {
    float* const group = biased + g * size;
    const float score = GroupScore(group, size);
    if (GroupPrecedes(last_score, last, score, g)) std::fill_n(group, size, kMinusInfinity);
  }
}

// The k experts of the largest biased scores, best first, ties by index.
void PickLargest(const float* biased, size_t experts, size_t k, int32_t* ids) {
  size_t picked = 0;
  for (size_t e = 0; e < experts; ++e) {
    if (picked == k && !(biased[e] > biased[ids[k - 1]])) continue;
    size_t place = picked < k ? picked++ : k - 1;
    for (; place > 0 && biased[e] > biased[ids[place - 1]]; --place) ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(e);
  }
}

void SortByExpert(int32_t* ids, float* weights, size_t k) {
  for (size_t i = 1; i < k; ++i) {
    const int32_t id = ids[i];
    const float weight = weights[i];
    size_t place = i;
    for (; place > 0 && ids[place - 1] > id; --place) {
      ids[place] = ids[place - 1];
      weights[place] = weights[place - 1];
    }
    ids[place] = id;
    weights[place] = weight;
  }
}

}  // namespace

bool RouteRow(const RouterRule& rule, float* logits, const float* bias, float* scratch,
              int32_t* ids, float* weights) {
  const size_t experts = rule.experts;
  const size_t k = rule.top_k;
  if (k == 0 || k > experts) return false;
  if (!AllFinite(logits, experts)) return false;
  if (rule.softmax) {
    Softmax(logits, experts);
  } else {
    SigmoidInPlace(logits, experts);
  }
  for (size_t e = 0; e < experts; ++e) scratch[e] = logits[e] + bias[e];
  if (!AllFinite(scratch, experts)) return false;
  for (size_t e = 0; e < experts; ++e) {
    if (e < rule.first_present || e > rule.last_present) scratch[e] = kMinusInfinity;
  }
  if (rule.groups > 1 && rule.groups_kept < rule.groups) {
    MaskGroups(scratch, experts, rule.groups, rule.groups_kept);
  }
  PickLargest(scratch, experts, k, ids);

  float sum = 0.0F;
  for (size_t i = 0; i < k; ++i) {
    weights[i] = logits[ids[i]];
    sum += weights[i];
  }
  for (size_t i = 0; i < k; ++i) {
    if (rule.renormalize && k > 1) weights[i] /= sum + 1e-20F;
    weights[i] *= rule.scaling;
  }
  SortByExpert(ids, weights, k);
  return true;
}

}  // namespace kimi_k3::kernels
