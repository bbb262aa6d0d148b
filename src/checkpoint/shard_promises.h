// Which shard the index promises for which tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/name_prefix.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/tensor_slots.h"

namespace kimi_k3 {

// The shards that an index names, and what it says is in them. Not thread-safe.
class ShardPromises {
 public:
  static constexpr uint16_t kNoShard = 0xffff;

  // slots: outlives it.
  explicit ShardPromises(const TensorSlots& slots) : slots_(slots) {}

  // Reads the index; shards are numbered in the order in which it names them. Throws
  // Error(kCheckpoint) as ReadTensorIndex does, for a shard outside the folder and for too many.
  void Read(const std::filesystem::path& index, NamePrefix& prefix, ProblemList& problems);

  // In place of an index: one shard, of which nothing is promised.
  void UseSingle(std::string_view shard) { shard_names_.assign(1, std::string(shard)); }

  const std::vector<std::string>& shard_names() const { return shard_names_; }
  bool Names(std::string_view shard) const { return shard_ids_.contains(std::string(shard)); }
  bool indexed() const { return !promised_.empty(); }

  // Of a slot, and of a tensor that is not one of the model's; kNoShard where there is no index, or
  // it does not name the tensor.
  uint16_t OfSlot(size_t slot) const { return promised_.empty() ? kNoShard : promised_[slot]; }
  uint16_t OfStranger(std::string_view name) const;
  const std::unordered_map<std::string, uint16_t>& strangers() const { return strangers_; }

  // By shard: whether a slot that `needed` wants is promised to it.
  std::vector<bool> NeededShards(FunctionRef<bool(size_t slot)> needed) const;

  // Numbers the shards anew: order[i] is the present number of the one that becomes i.
  void Reorder(const std::vector<uint16_t>& order);

 private:
  uint16_t ShardId(const std::filesystem::path& index, std::string_view shard);

  const TensorSlots& slots_;
  std::vector<std::string> shard_names_;
  std::unordered_map<std::string, uint16_t> shard_ids_;  // in the order of the index
  std::string last_name_;  // of the shard that last_id_ means; entries come in runs
  uint16_t last_id_ = kNoShard;
  std::vector<uint16_t> promised_;  // by slot
  std::unordered_map<std::string, uint16_t> strangers_;
};

}  // namespace kimi_k3
