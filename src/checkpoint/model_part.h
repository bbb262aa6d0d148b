// A part of a model: which of its layers and routed experts are run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kimi_k3 {

struct ModelConfig;

// Zero-based, both ends included; by default everything.
struct IndexRange {
  size_t first = 0;
  size_t last = SIZE_MAX;
  bool Has(size_t index) const { return index >= first && index <= last; }
};

// Layers and experts outside the part are neither required of a checkpoint nor run. What occurs
// once a model (embedding, output residual, final norm, head), and of every layer of the part all
// but its routed experts, always belongs to it.
struct ModelPart {
  IndexRange layers, experts;
};

// Reads "layers=0-11,experts=0-63"; either may be absent. Throws Error(kUsage), naming --shard, for
// anything else, also a range that ends before it begins and a name given twice.
ModelPart ParseModelPart(std::string_view text);

// Throws Error(kUsage), naming --shard, where the part reaches beyond the model or a MoE layer of
// it could not choose experts_per_token experts whatever the scores are.
void CheckModelPart(const ModelPart& part, const ModelConfig& config);

// "layers 0-11 of 93, experts 0-63 of 896"; empty where the config's part is the whole model.
std::string DescribeModelPart(const ModelConfig& config);

}  // namespace kimi_k3
