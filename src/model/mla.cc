// Gated multi-head latent attention, absorbed: the latent cache is never expanded.
#include "model/mla.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/latent_attention.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"

namespace kimi_k3 {
namespace {

// The vendor's epsilon of the two latent norms, whatever rms_norm_eps says.
constexpr float kLatentNormEpsilon = 1e-6F;

// Where a row stands: its sequence and how many positions it may look at, itself included.
struct RowPlace {
  const SequenceState* sequence;
  size_t visible;
};

RowPlace PlaceOf(std::span<const RowRun> runs, size_t row) {
  const auto run = std::ranges::find_if(
      runs, [row](const RowRun& candidate) { return row < candidate.first + candidate.count; });
  return {.sequence = run->sequence,
          .visible = run->sequence->positions() + (row - run->first) + 1};
}

// Scratch of one part of a parallel loop, for up to all heads of one row.
struct HeadScratch {
  float* queries;    // [heads, cache_width]: absorbed nope part, then the rope part
  float* contexts;   // [heads, kv_lora_rank]
  float* attention;  // LatentAttentionScratch
};

void ProjectQueries(const Compute& compute, size_t layer, const MlaVectors& vectors, RowsView x,
                    RowsView low_rank, RowsView q) {
  if (compute.config.mla.q_lora_rank == 0) {
    Project(compute, {Role::kMlaQ, layer}, x, q);
    return;
  }
  Project(compute, {Role::kMlaQA, layer}, x, low_rank);
  for (size_t r = 0; r < x.count; ++r) {
    kernels::RmsNorm(low_rank.Row(r), vectors.q_a_norm.data(), kLatentNormEpsilon, low_rank.Row(r),
                     low_rank.stride);
  }
  Project(compute, {Role::kMlaQB, layer}, low_rank, q);
}

void StoreLatents(const Compute& compute, size_t layer, const MlaVectors& vectors,
                  std::span<const RowRun> runs, RowsView latents) {
  const MlaConfig& mla = compute.config.mla;
  for (const RowRun& run : runs) {
    for (size_t i = 0; i < run.count; ++i) {
      float* latent = latents.Row(run.first + i);
      kernels::RmsNorm(latent, vectors.kv_a_norm.data(), kLatentNormEpsilon, latent,
                       mla.kv_lora_rank);
      run.sequence->WriteCacheRow(layer, run.sequence->positions() + i,
                                  {latent, mla.cache_width()});
    }
  }
}

// Attention of heads [first, first + count) of one row. kv_b: the rows of those heads in kv_b_proj,
// for each head qk_nope_head_dim rows of keys and then v_head_dim rows of values.
void AttendHeads(const MlaConfig& mla, const kernels::LatentCacheView& cache, size_t visible,
                 const kernels::WeightView& kv_b, size_t count, const float* q,
                 const HeadScratch& scratch, float* out) {
  const size_t head_rows = mla.qk_nope_head_dim + mla.v_head_dim;
  for (size_t h = 0; h < count; ++h) {
    const float* head_q = q + h * mla.qk_head_dim();
    float* query = scratch.queries + h * mla.cache_width();
    kernels::TransposedMatVec(kv_b.Rows(h * head_rows, mla.qk_nope_head_dim), head_q, query);
    std::copy_n(head_q + mla.qk_nope_head_dim, mla.qk_rope_head_dim, query + mla.kv_lora_rank);
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(mla.qk_head_dim()));
  kernels::LatentAttention(cache, visible, scratch.queries, count, scale, scratch.attention,
                           scratch.contexts);
  for (size_t h = 0; h < count; ++h) {
    kernels::MatMul(kv_b.Rows(h * head_rows + mla.qk_nope_head_dim, mla.v_head_dim),
                    scratch.contexts + h * mla.kv_lora_rank, mla.kv_lora_rank, 1,
                    out + h * mla.v_head_dim, mla.v_head_dim);
  }
}

// Attention of every row over the cache, head by head as the tiles of kv_b_proj arrive.
void Attend(const Compute& compute, size_t layer, std::span<const RowRun> runs, RowsView q,
            RowsView out, std::span<const HeadScratch> scratch) {
  const MlaConfig& mla = compute.config.mla;
  const size_t head_rows = mla.qk_nope_head_dim + mla.v_head_dim;
  compute.weights.ForEachTile({Role::kMlaKvB, layer}, [&](const Tile& tile) {
    const size_t heads = tile.weights.rows / head_rows;
    const size_t first_head = tile.first_row / head_rows;
    compute.parallel.For(q.count * heads, 1, [&](size_t part, size_t begin, size_t end) {
      while (begin < end) {
        const size_t row = begin / heads;
        const size_t head = begin % heads;
        const size_t count = std::min(end - begin, heads - head);
        const RowPlace place = PlaceOf(runs, row);
        AttendHeads(mla, place.sequence->Cache(layer), place.visible,
                    tile.weights.Rows(head * head_rows, count * head_rows), count,
                    q.Row(row) + (first_head + head) * mla.qk_head_dim(), scratch[part],
                    out.Row(row) + (first_head + head) * mla.v_head_dim);
        begin += count;
      }
    });
  });
}

std::vector<HeadScratch> TakeHeadScratch(const Compute& compute, Workspace& workspace) {
  const MlaConfig& mla = compute.config.mla;
  std::vector<HeadScratch> scratch(compute.parallel.parts());
  for (HeadScratch& part : scratch) {
    part.queries = workspace.TakeFloats(mla.heads * mla.cache_width());
    part.contexts = workspace.TakeFloats(mla.heads * mla.kv_lora_rank);
    part.attention =
        workspace.TakeFloats(kernels::LatentAttentionScratch(mla.heads, mla.cache_width()));
  }
  return scratch;
}

}  // namespace

void MlaAttention(const Compute& compute, size_t layer, const MlaVectors& vectors,
                  std::span<const RowRun> runs, RowsView x, RowsView a, Workspace& workspace) {
  const MlaConfig& mla = compute.config.mla;
  const size_t n = x.count;
  const RowsView low_rank = workspace.Take(n, mla.q_lora_rank);
  const RowsView q = workspace.Take(n, mla.heads * mla.qk_head_dim());
  const RowsView latents = workspace.Take(n, mla.cache_width());
  const RowsView out = workspace.Take(n, mla.heads * mla.v_head_dim);
  const RowsView gate = workspace.Take(n, mla.heads * mla.v_head_dim);
  const std::vector<HeadScratch> scratch = TakeHeadScratch(compute, workspace);

  ProjectQueries(compute, layer, vectors, x, low_rank, q);
  Project(compute, {Role::kMlaKvA, layer}, x, latents);
  StoreLatents(compute, layer, vectors, runs, latents);
  Attend(compute, layer, runs, q, out, scratch);

  if (mla.output_gate) {
    Project(compute, {Role::kMlaG, layer}, x, gate);
    for (size_t r = 0; r < n; ++r) {
      kernels::SigmoidGateInPlace(out.Row(r), gate.Row(r), out.stride);
    }
  }
  Project(compute, {Role::kMlaO, layer}, out, a);
  workspace.Release();
}

}  // namespace kimi_k3
