// Opens a checkpoint: finds its shards, reads their headers and binds every tensor to its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/name_prefix.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/shard_promises.h"
#include "checkpoint/tensor_binder.h"
#include "checkpoint/unfetched_tensors.h"

namespace kimi_k3 {

// Fills a Checkpoint whose config is read; used once. What it needs beyond the result (which shard
// the index promises for which tensor, the headers' text) goes with it.
class CheckpointOpener {
 public:
  static constexpr size_t kListedProblems = 20;

  // Of more problems than are listed only the number is told.
  explicit CheckpointOpener(Checkpoint& checkpoint, size_t listed_problems = kListedProblems);

  // Throws Error as Checkpoint::Open says.
  void Run();

  // As Checkpoint::Open, but tensors of which kimi_k3 pull --shard has left out the data are told
  // of by a warning: for looking at headers, never for running.
  static Checkpoint WithUnfetched(std::vector<std::filesystem::path> model_dirs);

  // What config and index alone say of a checkpoint whose shards are not there (yet): every tensor
  // has the dtype and shape of the published format, its shard is the one that the index names, its
  // offset is unknown and given as 0, so that it can be counted and planned with, and never read.
  // Throws Error(kCheckpoint) for a config or an index that is refused or missing, and for an index
  // that lacks a tensor of the config.
  static Checkpoint FromIndex(std::vector<std::filesystem::path> model_dirs);

 private:
  void RunWithoutShards();
  TensorBinder MakeBinder();
  void TakeCounts(const TensorCounts& counts);
  void ReadIndex();
  void FindSingleFile();
  // Whether something that must be there is promised to a shard.
  std::vector<bool> NeededShards() const;
  bool Needed(size_t slot) const;
  void PlaceShards();
  void CheckShardsExist();
  void ReadShards(TensorBinder& binder);
  // False where not all of its tensors are known.
  bool ReadHeader(size_t shard, SafetensorsHeaderParser& parser, TensorBinder& binder);
  void TellUnfetched();
  void CheckNothingIsMissing(const TensorBinder& binder);
  void TellMissing(size_t slot);
  void Throw() const;
  std::string FullName(size_t slot) const;

  Checkpoint& checkpoint_;
  std::span<const std::filesystem::path> dirs_;
  std::filesystem::path index_path_;
  ProblemList problems_;
  size_t io_problems_ = 0;
  ShardPromises promises_;
  NamePrefix prefix_;
  // By shard: missing or broken, so that nothing is known of (all) its tensors.
  std::vector<bool> unread_;
  size_t spare_shards_ = 0;  // the last ones: missing, but the part that is run needs none of them
  UnfetchedTensors unfetched_;
  bool allow_unfetched_ = false;
};

}  // namespace kimi_k3
