// Binds what the shards' headers say to the places that the model has for tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/name_prefix.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/shard_promises.h"
#include "checkpoint/synth_tensors.h"

namespace kimi_k3 {

// Of the tensors that have come, whatever became of them.
struct TensorCounts {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t ignored = 0;
};

// Where the tensors go that a TensorBinder takes up; all of it outlives the binder.
struct BindingTarget {
  const Checkpoint& checkpoint;  // for its config, and its shards in the order of the promises
  const TensorSlots& slots;
  LocationTable& locations;  // by slot
};

// Fills the locations of a checkpoint, tensor by tensor. Not thread-safe.
class TensorBinder {
 public:
  // What it is given by reference outlives it.
  TensorBinder(const BindingTarget& target, std::filesystem::path index,
               const ShardPromises& promises, NamePrefix& prefix, ProblemList& problems);

  // Takes up a tensor of a shard and gives its slot; nothing, and a problem, for one that does not
  // fit, is there twice or is not the model's (ignored ones are none).
  std::optional<size_t> Bind(size_t shard, uint64_t data_offset, const HeaderTensor& tensor);

  // Takes a tensor of the published format as if the shard that is promised had told of it.
  void Assume(const SynthTensor& tensor);

  const TensorCounts& counts() const { return counts_; }
  // Whether a tensor has come for the slot and did not fit.
  bool refused(size_t slot) const { return refused_[slot]; }
  // Whether a tensor that is not the model's has come.
  bool HasStranger(const std::string& name) const { return strangers_.contains(name); }

 private:
  void HintAtPacking(std::string_view name);
  void BindStranger(size_t shard, const HeaderTensor& tensor);
  void CheckPromise(size_t shard, uint16_t promised, std::string_view name);
  // Adds a problem and says false for an unpacked expert that is stored otherwise than the first.
  bool AlikeExpert(size_t shard, const HeaderTensor& tensor);
  // Adds a problem and says false unless the dtype is one that the slot can have.
  bool DtypeFits(size_t shard, const TensorSlots::Tensor& wanted, const HeaderTensor& tensor);
  // Adds a problem and says false unless dtype and shape are what the slot demands.
  bool Fits(size_t shard, const TensorSlots::Tensor& wanted, const HeaderTensor& tensor);
  std::string ShardName(size_t shard) const {
    return target_.checkpoint.shards()[shard].path.string();
  }

  BindingTarget target_;
  std::filesystem::path index_;
  const ShardPromises& promises_;
  NamePrefix& prefix_;
  ProblemList& problems_;
  TensorCounts counts_;
  std::vector<bool> refused_;                          // by slot
  std::unordered_map<std::string, size_t> strangers_;  // and the shard of each
  std::string expert_dtype_;                           // of unpacked experts, once one is seen
  bool hinted_at_packing_ = false;
};

}  // namespace kimi_k3
