// Which shard the index promises for which tensor.
#include "checkpoint/shard_promises.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/location_table.h"
#include "checkpoint/shard_names.h"

namespace kimi_k3 {

void ShardPromises::Read(const std::filesystem::path& index, NamePrefix& prefix,
                         ProblemList& problems) {
  promised_.assign(slots_.count(), kNoShard);
  ReadTensorIndex(index, [&](std::string_view name, std::string_view file_name) {
    const uint16_t shard = ShardId(index, file_name);
    const auto match = slots_.Find(name);
    if (match) prefix.Note(match->prefixed, name, problems);
    uint16_t& promised = match ? promised_[match->slot]
                               : strangers_.try_emplace(std::string(name), kNoShard).first->second;
    if (promised != kNoShard) {
      problems.Add("{}: tensor {} is named twice", index.string(), Printable(name));
    }
    promised = shard;
  });
}

uint16_t ShardPromises::ShardId(const std::filesystem::path& index, std::string_view shard) {
  if (last_id_ != kNoShard && shard == last_name_) return last_id_;
  const auto [found, added] =
      shard_ids_.try_emplace(std::string(shard), static_cast<uint16_t>(shard_names_.size()));
  if (added) {
    if (!IsPlainFileName(shard)) {
      Fail(ErrorKind::kCheckpoint,
           "{}: names the file \"{}\"; shards must lie in the model's own folder under a plain "
           "name",
           index.string(), Printable(shard));
    }
    if (shard_names_.size() + 1 >= LocationTable::kShardLimit) {
      Fail(ErrorKind::kCheckpoint, "{}: names more than {} files", index.string(),
           LocationTable::kShardLimit - 1);
    }
    shard_names_.emplace_back(shard);
  }
  last_name_ = shard;
  last_id_ = found->second;
  return last_id_;
}

uint16_t ShardPromises::OfStranger(std::string_view name) const {
  const auto found = strangers_.find(std::string(name));
  return found == strangers_.end() ? kNoShard : found->second;
}

std::vector<bool> ShardPromises::NeededShards(FunctionRef<bool(size_t slot)> needed) const {
  std::vector<bool> shards(shard_names_.size(), false);
  for (size_t slot = 0; slot < promised_.size(); ++slot) {
    if (promised_[slot] != kNoShard && needed(slot)) shards[promised_[slot]] = true;
  }
  return shards;
}

void ShardPromises::Reorder(const std::vector<uint16_t>& order) {
  std::vector<uint16_t> rank(order.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<uint16_t>(i);
    names.push_back(std::move(shard_names_[order[i]]));
  }
  shard_names_ = std::move(names);
  for (uint16_t& shard : promised_) {
    if (shard != kNoShard) shard = rank[shard];
  }
  for (auto& [name, shard] : strangers_) shard = rank[shard];
}

}  // namespace kimi_k3
