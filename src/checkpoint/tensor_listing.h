// Every tensor of a checkpoint by name: dtype, shape, file and place, also while shards are
// missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/checkpoint.h"

namespace kimi_k3 {

// One tensor; the views are valid during the visit alone.
struct ListedTensor {
  std::string_view name;
  std::string_view dtype;  // as in the header
  std::span<const uint64_t> shape;
  uint64_t bytes = 0;
  std::string_view file;
  std::filesystem::path path;      // empty where the file is not there
  std::optional<uint64_t> offset;  // in the file; nothing where it is not there
  // What the model makes of it; nothing for tensors that it ignores.
  std::optional<TensorSlots::Tensor> meaning;
};

// The shards of a checkpoint as they lie in its folders. Immutable; safe to use from many threads.
class TensorListing {
 public:
  // Opens the checkpoint as Checkpoint::Open does where all of its shards are there (of shards that
  // were fetched in part, what is not there is a warning), and from
  // config and index alone (CheckpointOpener::FromIndex) where one is missing. Throws as these do.
  explicit TensorListing(std::vector<std::filesystem::path> model_dirs);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  // The numbers and names of its tensors.
  const TensorSlots& slots() const { return slots_; }
  size_t files() const { return files_; }
  // Names of the shards that are not there, sorted.
  const std::vector<std::string>& missing() const { return missing_; }

  // Visits every tensor: shard after shard as their headers say, then those of missing shards with
  // the dtype and shape of the published format. Throws as VisitShardTensors does.
  void Visit(FunctionRef<void(const ListedTensor&)> visit) const;

 private:
  void VisitMissing(FunctionRef<void(const ListedTensor&)> visit) const;

  std::vector<std::string> missing_;
  size_t files_ = 0;
  Checkpoint checkpoint_;
  TensorSlots slots_;
};

}  // namespace kimi_k3
