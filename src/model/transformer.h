// The model: one pass of rows through all layers to logits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/parallel.h"
#include "checkpoint/model_config.h"
#include "model/layer_vectors.h"
#include "model/linear.h"
#include "model/rows.h"
#include "model/workspace.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// Computes passes. One pass at a time; not for use by several threads. Logits of a row depend on
// its sequence and its token alone: not on what other rows the pass has, on how a prompt is cut
// into passes, or on how `parallel` cuts its loops.
class Transformer {
 public:
  // Loads the small vectors. config, weights and parallel must outlive the object. max_rows: the
  // most rows that a pass will have.
  Transformer(const ModelConfig& config, WeightStream& weights, Parallel& parallel,
              size_t max_rows);

  size_t max_rows() const { return workspace_.max_rows(); }

  // Called after each layer of a pass with its number; for a progress display. It may throw to end
  // the pass; the states of the pass's sequences are then spoilt.
  void SetLayerObserver(std::function<void(size_t)> observer) { observer_ = std::move(observer); }

  // Whether Forward may begin: throws Error(kRun) where a sequence has no room left for its rows or
  // a token is outside the vocabulary, std::logic_error where the number of rows or the size of the
  // logits is wrong.
  void CheckRows(std::span<const Row> rows, size_t logits_size) const;

  // One pass: advances the sequences of `rows` by one position for each row that is not tentative,
  // and forgets the tentative rows of earlier passes. logits: [rows that want them,
  // vocabulary], in the order of the rows. Throws as CheckRows before anything is changed; what the
  // stream throws, and Error(kRun) for scores or logits that are not finite, leave the states of
  // the pass's sequences spoilt.
  void Forward(std::span<const Row> rows, std::span<float> logits);

  // Makes positions of the first `count` tentative rows of the sequence's latest pass: its state is
  // then, bit for bit, what it would be had they not been tentative. The others are forgotten.
  // count <= sequence.tentative().count(). No weights are read.
  void Accept(SequenceState& sequence, size_t count);

 private:
  void Embed(std::span<const Row> rows);
  void RunLayer(size_t layer, std::span<const RowRun> runs, size_t rows);
  void Mix(const MixVector& mix, size_t blocks, size_t rows, float* out);
  void Norm(const float* x, const std::vector<float>& weight, size_t rows);
  void Logits(std::span<const Row> rows, size_t wanted, std::span<float> logits);

  Compute compute_;
  ModelVectors vectors_;
  Workspace workspace_;
  // What each part of a parallel loop needs for an attention residual.
  struct MixScratch {
    explicit MixScratch(size_t blocks) : sources(blocks), scores(blocks) {}
    std::vector<const float*> sources;
    std::vector<float> scores;
  };
  std::vector<MixScratch> mix_scratch_;
  std::function<void(size_t)> observer_;
};

}  // namespace kimi_k3
