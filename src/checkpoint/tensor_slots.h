// A dense number for every tensor that a config demands, and the way from a name to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {

inline constexpr std::string_view kNamePrefix = "language_model.";

// Numbers the tensors of one model from 0 to count() - 1: those of the model, then layer by layer,
// in a layer the experts last. Takes some kilobytes whatever the number of experts. Immutable.
class TensorSlots {
 public:
  explicit TensorSlots(const ModelConfig& config);

  size_t count() const { return count_; }

  struct Match {
    size_t slot = 0;
    bool prefixed = false;  // the name began with kNamePrefix
  };
  // The tensor that a name on disk means; nothing where the model has none of that name.
  std::optional<Match> Find(std::string_view name) const;

  // Slot of a tensor other than an expert's; nothing where the model has no such tensor.
  std::optional<size_t> TrunkSlot(Role role, size_t layer) const;
  // Slot of an expert's matrix, or of its scales. layer: a MoE layer; expert: below the count.
  size_t ExpertSlot(size_t layer, size_t expert, Role role, bool scales) const;

  struct Tensor {
    const TensorSpec* spec = nullptr;  // owned by this object
    size_t layer = 0;
    size_t expert = 0;
    bool scales = false;
  };
  // Whether the tensor is a layer's and not one that occurs once a model.
  bool InLayer(size_t slot) const { return slot >= model_.trunk.size(); }
  // slot < count().
  Tensor Describe(size_t slot) const;

  // Name on disk without the prefix.
  static std::string Name(const Tensor& tensor);

 private:
  // What layers of the same make have in common.
  struct LayerKind {
    std::vector<TensorSpec> trunk;
    std::array<int16_t, kRoleCount> index_of_role{};             // into trunk, or -1
    std::unordered_map<std::string_view, size_t> index_of_name;  // name after "model.layers.L."
    std::vector<TensorSpec> experts;                             // gate, up, down; or none
    std::vector<std::string_view> expert_names;                  // a slot each: after "experts.E."
  };

  static LayerKind MakeKind(const std::vector<TensorSpec>& specs, bool mxfp4);
  const LayerKind& KindOf(size_t layer) const { return kinds_[kind_of_layer_[layer]]; }
  std::optional<size_t> FindInLayer(std::string_view rest) const;

  size_t layers_ = 0;
  size_t experts_ = 0;
  bool mxfp4_ = false;
  size_t count_ = 0;
  LayerKind model_;
  std::vector<LayerKind> kinds_;
  std::vector<uint8_t> kind_of_layer_;
  std::vector<size_t> first_slot_;  // of each layer
};

}  // namespace kimi_k3
