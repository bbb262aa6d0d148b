// How far the predictions of one run of a model are from those of another, over a text.
#pragma once

#include <cstddef>
#include <span>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// What a run predicts of a text, and how far that is from the exact run. One thread at a time.
class LogitsComparison {
 public:
  // The next position: its logits (one a token of the vocabulary, finite), and the token that the
  // text has there.
  void Add(std::span<const float> logits, TokenId next);
  // The same, compared with those of the exact run.
  void Add(std::span<const float> logits, TokenId next, std::span<const float> exact);

  size_t positions() const { return positions_; }
  // Bits that the text costs: -log2 of the probabilities of its tokens, added up.
  double bits() const;
  // Kullback-Leibler divergence of the exact run's distribution from this one's, in nats.
  double mean_divergence() const;
  double largest_divergence() const { return largest_divergence_; }
  // Share of positions whose most likely token (ties: the lowest id) is the exact run's.
  double same_first_choice() const;

 private:
  size_t positions_ = 0;
  size_t compared_ = 0;
  size_t same_first_choice_ = 0;
  double nats_ = 0;
  double divergence_ = 0;
  double largest_divergence_ = 0;
};

}  // namespace kimi_k3
