// The model in double precision, written from docs/model.md section 3 line by line, slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/test_model.h"

namespace kimi_k3 {

using Numbers = std::vector<double>;

// One sequence run through a model, position by position. Nothing is absorbed, blocked or cached
// but what the formulas name.
class ReferenceSequence {
 public:
  explicit ReferenceSequence(const TestModel& model);

  // The logits of the next position.
  Numbers Step(int32_t token);

  // Parts of a layer at the next position; x: [hidden].
  Numbers Kda(size_t layer, const Numbers& x);
  Numbers Mla(size_t layer, const Numbers& x);
  Numbers Moe(size_t layer, const Numbers& x) const;
  Numbers Dense(size_t layer, const Numbers& x) const;
  // The experts of one row, best first, and their weights; logits: [experts].
  struct Routing {
    std::vector<size_t> experts;
    Numbers weights;
  };
  Routing Route(size_t layer, const Numbers& x) const;

  // [heads, key, value] of a KDA layer, and the inputs of its three convolutions so far.
  const Numbers& KdaState(size_t layer) const { return layers_[layer].state; }
  const std::vector<Numbers>& ConvInputs(size_t layer, size_t m) const {
    return layers_[layer].conv_inputs[m];
  }
  // Normalised latents followed by the rope keys of an MLA layer so far.
  const std::vector<Numbers>& Latents(size_t layer) const { return layers_[layer].latents; }

 private:
  struct Layer {
    Numbers state;
    std::vector<Numbers> conv_inputs[3];
    std::vector<Numbers> latents;
  };
  Numbers Multiply(Role role, size_t layer, const Numbers& x, size_t expert = 0) const;
  Numbers Norm(Role role, size_t layer, const Numbers& x, double epsilon) const;
  Numbers AttentionResidual(const std::vector<Numbers>& blocks, const Numbers& p, Role norm,
                            Role proj, size_t layer) const;
  Numbers Convolve(size_t layer, size_t m, Role taps, const Numbers& input);
  Numbers Activate(const Numbers& gate, const Numbers& up) const;

  const TestModel& model_;
  const ModelConfig& config_;
  std::vector<Layer> layers_;
};

// ||actual - expected|| / ||expected||
double RelativeError(const float* actual, const Numbers& expected);

}  // namespace kimi_k3
