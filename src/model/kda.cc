// Kimi delta attention: linear attention with a gated delta rule.
#include "model/kda.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/delta_rule.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/short_conv.h"

namespace kimi_k3 {
namespace {

// What one layer works on, [rows, width] but where said.
struct KdaRows {
  RowsView q, k, v, decay, out;
  RowsView beta;  // [rows, heads]
  float* tail;    // a copy of one sequence's tails
  // [parts, head_dim, head_dim]: copies of one head's state, as it is stored
  float* states;
};

// Short convolutions and their SiLU, in place; the three matrices may be taken at the same time.
void Convolve(const Compute& compute, size_t layer, const KdaVectors& vectors,
              std::span<const RowRun> runs, const KdaRows& rows) {
  const size_t taps = compute.config.kda.conv_taps;
  const size_t width = compute.config.kda.width();
  const std::array<const std::vector<float>*, 3> weights = {&vectors.q_conv, &vectors.k_conv,
                                                            &vectors.v_conv};
  const std::array<RowsView, 3> inputs = {rows.q, rows.k, rows.v};
  const size_t tail_size = (taps - 1) * width;
  compute.parallel.For(3, 1, [&](size_t, size_t begin, size_t end) {
    for (size_t m = begin; m < end; ++m) {
      for (const RowRun& run : runs) {
        float* tail = run.sequence->ConvTail(layer).data() + m * tail_size;
        for (size_t i = 0; i < run.count; ++i) {
          float* row = inputs[m].Row(run.first + i);
          if (i == run.certain()) {
            std::copy_n(tail, tail_size, rows.tail + m * tail_size);
            tail = rows.tail + m * tail_size;
          }
          if (i >= run.certain()) {
            TentativeRows& tentative = run.sequence->tentative();
            std::copy_n(row, width, tentative.ConvInputs(layer, i - run.certain()) + m * width);
          }
          kernels::ShortConvStep(weights[m]->data(), taps, tail, row, row, width);
        }
      }
    }
  });
}

// What the recurrence of one head takes from a row, left with the sequence.
void KeepTentative(TentativeRows& tentative, size_t layer, size_t row, size_t dim, size_t head,
                   const kernels::DeltaRuleInput& input) {
  const size_t at = head * dim;
  std::copy_n(input.k, dim, tentative.Keys(layer, row) + at);
  std::copy_n(input.v, dim, tentative.Values(layer, row) + at);
  std::copy_n(input.decay, dim, tentative.Decays(layer, row) + at);
  tentative.Betas(layer, row)[head] = input.beta;
}

// Decay factors and beta from their projections, in place.
void GateRow(const ModelConfig& config, const KdaVectors& vectors, float* decay, float* beta) {
  const KdaConfig& kda = config.kda;
  kernels::AddInPlace(decay, vectors.dt_bias.data(), kda.width());
  for (size_t h = 0; h < kda.heads; ++h) {
    float* head = decay + h * kda.head_dim;
    if (kda.gate_lower_bound) {
      kernels::BoundedDecay(head, vectors.decay_rate[h], *kda.gate_lower_bound, kda.head_dim);
    } else {
      kernels::SoftplusDecay(head, vectors.decay_rate[h], kda.head_dim);
    }
  }
  kernels::SigmoidInPlace(beta, kda.heads);
}

// The recurrence of one head over every row, and the norm of its output.
void RunHead(const Compute& compute, size_t layer, const KdaVectors& vectors,
             std::span<const RowRun> runs, const KdaRows& rows, size_t head, size_t part) {
  const size_t dim = compute.config.kda.head_dim;
  const size_t at = head * dim;
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(dim));
  for (const RowRun& run : runs) {
    const kernels::StateType type = run.sequence->state_type();
    const size_t state_bytes = dim * dim * kernels::StateNumberBytes(type);
    std::byte* state = run.sequence->KdaState(layer).data() + head * state_bytes;
    for (size_t i = 0; i < run.count; ++i) {
      const size_t r = run.first + i;
      if (i == run.certain()) {
        std::byte* const copy = reinterpret_cast<std::byte*>(rows.states + part * dim * dim);
        std::copy_n(state, state_bytes, copy);
        state = copy;
      }
      float* q = rows.q.Row(r) + at;
      float* k = rows.k.Row(r) + at;
      float* out = rows.out.Row(r) + at;
      kernels::L2NormInPlace(q, q_scale, dim);
      kernels::L2NormInPlace(k, 1.0F, dim);
      const kernels::DeltaRuleInput input = {.q = q,
                                             .k = k,
                                             .v = rows.v.Row(r) + at,
                                             .decay = rows.decay.Row(r) + at,
                                             .beta = rows.beta.Row(r)[head]};
      if (i >= run.certain()) {
        KeepTentative(run.sequence->tentative(), layer, i - run.certain(), dim, head, input);
      }
      kernels::DeltaRuleStep(type, state, dim, input, out);
      kernels::RmsNorm(out, vectors.output_norm.data(), compute.config.rms_epsilon, out, dim);
    }
  }
}

// The output gate's projection of x: full rank or low rank.
void ProjectGate(const Compute& compute, size_t layer, RowsView x, RowsView low_rank,
                 RowsView gate) {
  if (compute.config.kda.full_rank_gate) {
    Project(compute, {Role::kKdaG, layer}, x, gate);
  } else {
    Project(compute, {Role::kKdaGA, layer}, x, low_rank);
    Project(compute, {Role::kKdaGB, layer}, low_rank, gate);
  }
}

}  // namespace

void KdaAttention(const Compute& compute, size_t layer, const KdaVectors& vectors,
                  std::span<const RowRun> runs, RowsView x, RowsView a, Workspace& workspace) {
  const KdaConfig& kda = compute.config.kda;
  const size_t n = x.count;
  KdaRows rows = {
      .q = workspace.Take(n, kda.width()),
      .k = workspace.Take(n, kda.width()),
      .v = workspace.Take(n, kda.width()),
      .decay = workspace.Take(n, kda.width()),
      .out = workspace.Take(n, kda.width()),
      .beta = workspace.Take(n, kda.heads),
      .tail = workspace.TakeFloats(3 * (kda.conv_taps - 1) * kda.width()),
      .states = workspace.TakeFloats(compute.parallel.parts() * kda.head_dim * kda.head_dim)};
  const RowsView low_rank = workspace.Take(n, kda.head_dim);
  const RowsView gate = workspace.Take(n, kda.width());

  Project(compute, {Role::kKdaQ, layer}, x, rows.q);
  Project(compute, {Role::kKdaK, layer}, x, rows.k);
  Project(compute, {Role::kKdaV, layer}, x, rows.v);
  Convolve(compute, layer, vectors, runs, rows);

  Project(compute, {Role::kKdaFA, layer}, x, low_rank);
  Project(compute, {Role::kKdaFB, layer}, low_rank, rows.decay);
  Project(compute, {Role::kKdaB, layer}, x, rows.beta);
  compute.parallel.For(n, 1, [&](size_t, size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      GateRow(compute.config, vectors, rows.decay.Row(r), rows.beta.Row(r));
    }
  });
  compute.parallel.For(kda.heads, 1, [&](size_t part, size_t begin, size_t end) {
    for (size_t h = begin; h < end; ++h) RunHead(compute, layer, vectors, runs, rows, h, part);
  });

  ProjectGate(compute, layer, x, low_rank, gate);
  compute.parallel.For(n, 1, [&](size_t, size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      kernels::SigmoidGateInPlace(rows.out.Row(r), gate.Row(r), kda.width());
    }
  });
  Project(compute, {Role::kKdaO, layer}, rows.out, a);
  workspace.Release();
}

void AdvanceByTentativeRows(const ModelConfig& config, size_t layer, SequenceState& sequence,
                            size_t count, size_t first_head, size_t last_head, float* scratch) {
  const size_t dim = config.kda.head_dim;
  const size_t width = config.kda.width();
  const size_t before = config.kda.conv_taps - 1;  // rows of a tail
  const size_t at = first_head * dim;
  const size_t n = (last_head - first_head) * dim;
  TentativeRows& tentative = sequence.tentative();
  for (size_t m = 0; m < 3; ++m) {
    float* tail = sequence.ConvTail(layer).data() + m * before * width + at;
    for (size_t t = 0; t < before; ++t) {
      const size_t source = t + count;  // of the tail with the rows behind it
      const float* row = source < before
                             ? tail + source * width
                             : tentative.ConvInputs(layer, source - before) + m * width + at;
      std::copy_n(row, n, tail + t * width);
    }
  }
  const kernels::StateType type = sequence.state_type();
  const size_t state_bytes = dim * dim * kernels::StateNumberBytes(type);
  for (size_t h = first_head; h < last_head; ++h) {
    std::byte* state = sequence.KdaState(layer).data() + h * state_bytes;
    for (size_t r = 0; r < count; ++r) {
      const float* k = tentative.Keys(layer, r) + h * dim;
      kernels::DeltaRuleStep(type, state, dim,
                             {.q = k,
                              .k = k,
                              .v = tentative.Values(layer, r) + h * dim,
                              .decay = tentative.Decays(layer, r) + h * dim,
                              .beta = tentative.Betas(layer, r)[h]},
                             scratch);
    }
  }
}

}  // namespace kimi_k3
