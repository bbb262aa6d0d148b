// The mixture of experts: router, routed experts in their latent width, shared experts.
#include "model/moe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/router.h"
#include "model/feed_forward.h"

namespace kimi_k3 {
namespace {

// The experts chosen for each row, ascending, and what each counts.
struct Choice {
  size_t per_row = 0;
  int32_t* ids = nullptr;    // [rows, per_row]
  float* weights = nullptr;  // [rows, per_row]
};

// One use of an expert: by which row, as which of its choices.
struct Use {
  int32_t expert;
  uint32_t row;
  uint32_t choice;
};

// Where a use of an expert leaves its result.
struct ExpertRows {
  RowsView input;               // [rows, width] what experts read
  RowsView gathered, gate, up;  // of the rows that use one expert
  RowsView result;              // of the same rows
  RowsView kept;                // [rows * per_row, width], for few rows
  RowsView sum;                 // [rows, width]
};

kernels::RouterRule RuleOf(const ModelConfig& config) {
  const MoeConfig& moe = config.moe;
  return {.softmax = moe.softmax_router,
          .experts = moe.experts,
          .top_k = moe.experts_per_token,
          .groups = moe.groups,
          .groups_kept = moe.groups_kept,
          .renormalize = moe.renormalize,
          .scaling = moe.scaling,
          .first_present = config.part.experts.first,
          .last_present = config.part.experts.last};
}

size_t PositionOf(std::span<const RowRun> runs, size_t row) {
  for (const RowRun& run : runs) {
    if (row < run.first + run.count) return run.sequence->positions() + row - run.first;
  }
  return row;
}

Choice Route(const Compute& compute, size_t layer, const MoeVectors& vectors,
             std::span<const RowRun> runs, RowsView x, Workspace& workspace) {
  const MoeConfig& moe = compute.config.moe;
  const RowsView logits = workspace.Take(x.count, moe.experts);
  float* scratch = workspace.TakeFloats(moe.experts);
  const size_t choices = x.count * moe.experts_per_token;
  static_assert(sizeof(int32_t) == sizeof(float));
  Choice choice = {.per_row = moe.experts_per_token,
                   .ids = reinterpret_cast<int32_t*>(workspace.TakeFloats(choices)),
                   .weights = workspace.TakeFloats(choices)};
  Project(compute, {Role::kRouter, layer}, x, logits);
  const kernels::RouterRule rule = RuleOf(compute.config);
  for (size_t r = 0; r < x.count; ++r) {
    if (!kernels::RouteRow(rule, logits.Row(r), vectors.router_bias.data(), scratch,
                           choice.ids + r * choice.per_row, choice.weights + r * choice.per_row)) {
      Fail(ErrorKind::kRun,
           "layer {}, position {}: the router's scores are not finite; the weights of this or an "
           "earlier layer are damaged",
           layer, PositionOf(runs, r));
    }
  }
  return choice;
}

// Every use, by ascending expert and then ascending row.
std::vector<Use> UsesByExpert(const Choice& choice, size_t rows) {
  std::vector<Use> uses;
  uses.reserve(rows * choice.per_row);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < choice.per_row; ++c) {
      uses.push_back({.expert = choice.ids[r * choice.per_row + c],
                      .row = static_cast<uint32_t>(r),
                      .choice = static_cast<uint32_t>(c)});
    }
  }
  std::ranges::stable_sort(uses, {}, &Use::expert);
  return uses;
}

std::vector<int32_t> DistinctExperts(std::span<const Use> uses) {
  std::vector<int32_t> experts;
  for (const Use& use : uses) {
    if (experts.empty() || experts.back() != use.expert) experts.push_back(use.expert);
  }
  return experts;
}

// result[i] = w2 act(w1 z_i, w3 z_i) for the rows z_i that use this expert.
void RunExpert(const Compute& compute, const ExpertWeights& expert, std::span<const Use> uses,
               const ExpertRows& rows) {
  const size_t n = uses.size();
  const size_t width = rows.input.stride;
  RowsView z = rows.gathered;
  if (n == 1) {
    z.data = rows.input.Row(uses[0].row);
  } else {
    for (size_t i = 0; i < n; ++i) std::copy_n(rows.input.Row(uses[i].row), width, z.Row(i));
  }
  ForOutputs(compute.parallel, expert.gate.rows, n, [&](size_t begin, size_t end) {
    const size_t count = end - begin;
    kernels::MatMul(expert.gate.Rows(begin, count), z.data, z.stride, n, rows.gate.data + begin,
                    rows.gate.stride);
    kernels::MatMul(expert.up.Rows(begin, count), z.data, z.stride, n, rows.up.data + begin,
                    rows.up.stride);
    for (size_t i = 0; i < n; ++i) {
      GatedActivation(compute.config, rows.gate.Row(i) + begin, rows.up.Row(i) + begin,
                      rows.gate.Row(i) + begin, count);
    }
  });
  ForOutputs(compute.parallel, expert.down.rows, n, [&](size_t begin, size_t end) {
    kernels::MatMul(expert.down.Rows(begin, end - begin), rows.gate.data, rows.gate.stride, n,
                    rows.result.data + begin, rows.result.stride);
  });
}

// sum[r] = sum over the row's experts, ascending, of weight * expert output.
void RunExperts(const Compute& compute, size_t layer, const Choice& choice,
                std::span<const Use> uses, const ExpertRows& rows) {
  const size_t width = rows.sum.stride;
  const bool keep = rows.kept.count != 0;
  std::fill_n(rows.sum.data, rows.sum.count * width, 0.0F);
  compute.weights.ForEachExpert(
      layer, keep ? ExpertOrder::kArrival : ExpertOrder::kAscending,
      [&](int32_t id, const ExpertWeights& expert) {
        const std::span<const Use> own(std::ranges::lower_bound(uses, id, {}, &Use::expert),
                                       std::ranges::upper_bound(uses, id, {}, &Use::expert));
        RunExpert(compute, expert, own, rows);
        size_t i = 0;
        for (const Use& use : own) {
          const size_t slot = use.row * choice.per_row + use.choice;
          const float* result = rows.result.Row(i++);
          if (keep) {
            std::copy_n(result, width, rows.kept.Row(slot));
          } else {
            kernels::MulAddInPlace(rows.sum.Row(use.row), choice.weights[slot], result, width);
          }
        }
      });
  if (!keep) return;
  for (size_t slot = 0; slot < rows.sum.count * choice.per_row; ++slot) {
    kernels::MulAddInPlace(rows.sum.Row(slot / choice.per_row), choice.weights[slot],
                           rows.kept.Row(slot), width);
  }
}

// f = shared_down(act(shared_gate x, shared_up x)); zero without shared experts.
void RunSharedExperts(const Compute& compute, size_t layer, RowsView x, RowsView f,
                      Workspace& workspace) {
  const size_t width = compute.config.moe.shared_intermediate();
  if (width == 0) {
    std::fill_n(f.data, f.count * f.stride, 0.0F);
    return;
  }
  const RowsView gate = workspace.Take(x.count, width);
  const RowsView up = workspace.Take(x.count, width);
  Project(compute, {Role::kSharedGate, layer}, x, gate);
  Project(compute, {Role::kSharedUp, layer}, x, up);
  ActivateRows(compute, gate, up);
  Project(compute, {Role::kSharedDown, layer}, gate, f);
}

// The sum of the experts back in the hidden width, added to f.
void AddRouted(const Compute& compute, size_t layer, const MoeVectors& vectors, RowsView sum,
               RowsView f, Workspace& workspace) {
  const ModelConfig& config = compute.config;
  if (config.moe.latent_norm) {
    for (size_t r = 0; r < sum.count; ++r) {
      kernels::RmsNorm(sum.Row(r), vectors.latent_norm.data(), config.rms_epsilon, sum.Row(r),
                       sum.stride);
    }
  }
  RowsView routed = sum;
  if (config.moe.latent != 0) {
    routed = workspace.Take(f.count, config.hidden);
    Project(compute, {Role::kLatentUp, layer}, sum, routed);
  }
  kernels::AddInPlace(f.data, routed.data, f.count * f.stride);
}

}  // namespace

void MoeFeedForward(const Compute& compute, size_t layer, const MoeVectors& vectors,
                    std::span<const RowRun> runs, RowsView x, RowsView f, Workspace& workspace) {
  const ModelConfig& config = compute.config;
  const size_t n = x.count;
  const size_t width = config.expert_width();
  const Choice choice = Route(compute, layer, vectors, runs, x, workspace);
  const std::vector<Use> uses = UsesByExpert(choice, n);
  compute.weights.RequestExperts(layer, DistinctExperts(uses));

  RowsView z = x;
  if (config.moe.latent != 0) {
    z = workspace.Take(n, width);
    Project(compute, {Role::kLatentDown, layer}, x, z);
  }
  RunSharedExperts(compute, layer, x, f, workspace);

  const size_t kept = n <= kArrivalOrderRows ? n * choice.per_row : 0;
  const ExpertRows rows = {.input = z,
                           .gathered = workspace.Take(n, width),
                           .gate = workspace.Take(n, config.moe.expert_intermediate),
                           .up = workspace.Take(n, config.moe.expert_intermediate),
                           .result = workspace.Take(n, width),
                           .kept = workspace.Take(kept, width),
                           .sum = workspace.Take(n, width)};
  RunExperts(compute, layer, choice, uses, rows);
  AddRouted(compute, layer, vectors, rows.sum, f, workspace);
  workspace.Release();
}

}  // namespace kimi_k3
