// The model: one pass of rows through all layers to logits.
#include "model/transformer.h"

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "model/feed_forward.h"
#include "model/kda.h"
#include "model/mla.h"
#include "model/moe.h"

namespace kimi_k3 {

Transformer::Transformer(const ModelConfig& config, WeightStream& weights, Parallel& parallel,
                         size_t max_rows)
    : compute_{config, weights, parallel},
      vectors_(LoadModelVectors(config, weights)),
      workspace_(config, max_rows, parallel.parts()),
      mix_scratch_(parallel.parts(), MixScratch(config.BlocksBefore(config.end_layer()) + 1)) {}

void Transformer::Forward(std::span<const Row> rows, std::span<float> logits) {
  const std::vector<RowRun> runs = RowRuns(rows);
  CheckRows(rows, logits.size());
  const auto wanted = static_cast<size_t>(std::ranges::count_if(rows, &Row::wants_logits));
  workspace_.Release();  // an earlier pass may have ended half-way
  compute_.weights.BeginPass(wanted != 0);
  Embed(rows);
  for (size_t layer = compute_.config.first_layer(); layer < compute_.config.end_layer(); ++layer) {
    RunLayer(layer, runs, rows.size());
    if (observer_) observer_(layer);
  }
  if (wanted != 0) Logits(rows, wanted, logits);
  for (const RowRun& run : runs) {
    run.sequence->Advance(run.certain());
    run.sequence->tentative().SetCount(run.tentative);
  }
}

void Transformer::Accept(SequenceState& sequence, size_t count) {
  const ModelConfig& config = compute_.config;
  if (count > sequence.tentative().count()) {
    throw std::logic_error("more rows accepted than were tentative");
  }
  sequence.tentative().SetCount(0);
  if (count == 0) return;
  std::vector<size_t> layers;
  for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
    if (!config.IsMla(l)) layers.push_back(l);
  }
  const size_t heads = config.kda.heads;
  const size_t dim = config.kda.head_dim;
  std::vector<float> scratch(compute_.parallel.parts() * dim);
  compute_.parallel.For(layers.size() * heads, 1, [&](size_t part, size_t begin, size_t end) {
    while (begin < end) {
      const size_t head = begin % heads;
      const size_t last = std::min(heads, head + end - begin);
      AdvanceByTentativeRows(config, layers[begin / heads], sequence, count, head, last,
                             &scratch[part * dim]);
      begin += last - head;
    }
  });
  sequence.Advance(count);
}

// The running residual p is residual(); a layer at a block boundary moves it among the blocks and
// starts anew with the attention's output.
void Transformer::RunLayer(size_t layer, std::span<const RowRun> runs, size_t rows) {
  const ModelConfig& config = compute_.config;
  const LayerVectors& vectors = vectors_.layers[layer];
  const size_t hidden = config.hidden;
  float* p = workspace_.residual();
  const float* x = p;
  size_t blocks = config.BlocksBefore(layer);
  const bool boundary = config.attn_res_block != 0 && layer % config.attn_res_block == 0;

  if (blocks != 0) {
    Mix(vectors.attention_mix, blocks, rows, workspace_.mixed());
    x = workspace_.mixed();
  }
  Norm(x, vectors.input_norm, rows);
  if (boundary) std::copy_n(p, rows * hidden, workspace_.Block(blocks++));

  const RowsView normed = {.data = workspace_.normed(), .stride = hidden, .count = rows};
  const RowsView output = {.data = workspace_.output(), .stride = hidden, .count = rows};
  if (config.IsMla(layer)) {
    MlaAttention(compute_, layer, vectors.mla, runs, normed, output, workspace_);
  } else {
    KdaAttention(compute_, layer, vectors.kda, runs, normed, output, workspace_);
  }
  if (boundary) {
    std::copy_n(output.data, rows * hidden, p);
  } else {
    kernels::AddInPlace(p, output.data, rows * hidden);
  }

  x = p;
  if (blocks != 0) {
    Mix(vectors.mlp_mix, blocks, rows, workspace_.mixed());
    x = workspace_.mixed();
  }
  Norm(x, vectors.post_attention_norm, rows);
  if (config.IsDense(layer)) {
    DenseFeedForward(compute_, layer, normed, output, workspace_);
  } else {
    MoeFeedForward(compute_, layer, vectors.moe, runs, normed, output, workspace_);
  }
  kernels::AddInPlace(p, output.data, rows * hidden);
}

void Transformer::Logits(std::span<const Row> rows, size_t wanted, std::span<float> logits) {
  const ModelConfig& config = compute_.config;
  const float* x = workspace_.residual();
  if (const size_t blocks = config.BlocksBefore(config.end_layer()); blocks != 0) {
    Mix(vectors_.output_mix, blocks, rows.size(), workspace_.mixed());
    x = workspace_.mixed();
  }
  Norm(x, vectors_.final_norm, rows.size());
  const RowsView chosen = workspace_.Take(wanted, config.hidden);
  size_t next = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) continue;
    std::copy_n(workspace_.normed() + r * config.hidden, config.hidden, chosen.Row(next++));
  }
  Project(compute_, {Role::kHead}, chosen,
          {.data = logits.data(), .stride = config.vocabulary, .count = wanted});
  workspace_.Release();
  if (!kernels::AllFinite(logits.data(), logits.size())) {
    Fail(ErrorKind::kRun, "the logits are not finite; the weights of this checkpoint are damaged");
  }
}

void Transformer::Mix(const MixVector& mix, size_t blocks, size_t rows, float* out) {
  const size_t hidden = compute_.config.hidden;
  compute_.parallel.For(rows, 1, [&](size_t part, size_t begin, size_t end) {
    auto& [sources, scores] = mix_scratch_[part];
    for (size_t r = begin; r < end; ++r) {
      for (size_t b = 0; b < blocks; ++b) sources[b] = workspace_.Block(b) + r * hidden;
      sources[blocks] = workspace_.residual() + r * hidden;
      kernels::AttentionResidual(sources.data(), blocks + 1, mix.data(),
                                 compute_.config.rms_epsilon, scores.data(), out + r * hidden,
                                 hidden);
    }
  });
}

void Transformer::Norm(const float* x, const std::vector<float>& weight, size_t rows) {
  const size_t hidden = compute_.config.hidden;
  compute_.parallel.For(rows, 1, [&](size_t, size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      kernels::RmsNorm(x + r * hidden, weight.data(), compute_.config.rms_epsilon,
                       workspace_.normed() + r * hidden, hidden);
    }
  });
}

void Transformer::Embed(std::span<const Row> rows) {
  const size_t hidden = compute_.config.hidden;
  for (size_t r = 0; r < rows.size(); ++r) {
    compute_.weights.ReadEmbeddingRow(static_cast<size_t>(rows[r].token),
                                      {workspace_.residual() + r * hidden, hidden});
  }
}

void Transformer::CheckRows(std::span<const Row> rows, size_t logits_size) const {
  if (rows.empty() || rows.size() > max_rows()) {
    throw std::logic_error("a pass must have between 1 and max_rows() rows");
  }
  const auto wanted = static_cast<size_t>(std::ranges::count_if(rows, &Row::wants_logits));
  if (logits_size != wanted * compute_.config.vocabulary) {
    throw std::logic_error("logits must have room for exactly the rows that want them");
  }
  for (const Row& row : rows) {
    if (row.token < 0 || static_cast<size_t>(row.token) >= compute_.config.vocabulary) {
      Fail(ErrorKind::kRun, "token {} is outside the model's vocabulary of {}", row.token,
           compute_.config.vocabulary);
    }
  }
  for (const RowRun& run : RowRuns(rows)) {
    if (run.count > run.sequence->max_positions() - run.sequence->positions()) {
      Fail(ErrorKind::kRun,
           "the context is full: {} positions are used, {} more are wanted, and -c allows {}",
           run.sequence->positions(), run.count, run.sequence->max_positions());
    }
  }
}

}  // namespace kimi_k3
