// Which tensors a made-up checkpoint holds, in which order, and what each is filled with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/model_config.h"
#include "checkpoint/synth_noise.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {

struct SynthTensor {
  std::string name;
  Dtype dtype = Dtype::kBf16;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  SynthFill fill;
};

// The tensors in units that stay in one shard each: a unit a layer, then embedding, norm and head,
// then, where the config has vision_config, the projector and the vision tower. Immutable.
class SynthTensors {
 public:
  // top: the JSON of the config that `config` was read from.
  SynthTensors(ModelConfig config, const nlohmann::json& top);

  size_t units() const;
  // Visits a unit's tensors in file order: trunk first, then expert after expert.
  void Visit(size_t unit, FunctionRef<void(const SynthTensor&)> visit) const;
  uint64_t UnitBytes(size_t unit) const;

 private:
  void VisitSpecs(const std::vector<TensorSpec>& specs, size_t layer,
                  FunctionRef<void(const SynthTensor&)> visit) const;
  void VisitExperts(const std::vector<TensorSpec>& specs, size_t layer,
                    FunctionRef<void(const SynthTensor&)> visit) const;
  SynthTensor Trunk(const TensorSpec& spec, size_t layer) const;
  void MakeVision(const nlohmann::json& vision);

  ModelConfig config_;
  std::vector<SynthTensor> projector_;
  std::vector<SynthTensor> tower_;
};

// The JSON of the config.json that is in the first of the folders that has one. Throws
// Error(kCheckpoint) as ReadTextFile and ParseStrictJson do.
nlohmann::json LoadConfigJson(std::span<const std::filesystem::path> model_dirs);

}  // namespace kimi_k3
