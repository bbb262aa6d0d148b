// Opens a checkpoint: finds its shards, reads their headers and binds every tensor to its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/block_sums.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"

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
  static constexpr uint16_t kNoShard = 0xffff;

  // A tensor that is not one of the model's, as the index and the shards name it.
  struct Stranger {
    uint16_t promised = kNoShard;
    uint16_t found = kNoShard;
  };

  void RunWithoutShards();
  // Takes a tensor of the published format as if its shard had told of it.
  void Assume(const struct SynthTensor& tensor);
  void ReadIndex();
  void FindSingleFile();
  [[noreturn]] void RefuseWithoutIndex();
  uint16_t ShardId(std::string_view file_name);
  void Promise(std::string_view name, std::string_view file_name);
  // By shard in the order of the index: whether something that must be there is promised to it.
  std::vector<bool> NeededShards() const;
  bool Needed(size_t slot) const;
  void PlaceShards();
  void CheckShardsExist();
  void WarnOfOtherFiles();
  void ReadShards();
  // False where not all of its tensors are known.
  bool ReadHeader(size_t shard, SafetensorsHeaderParser& parser);
  void Bind(size_t shard, uint64_t data_offset, const HeaderTensor& tensor);
  void HintAtPacking(std::string_view name);
  void BindStranger(size_t shard, const HeaderTensor& tensor);
  void CheckPromise(size_t shard, uint16_t promised, std::string_view name);
  void NotePrefix(bool prefixed, std::string_view name);
  // Adds a problem and says false for an unpacked expert that is stored otherwise than the first.
  bool AlikeExpert(size_t shard, const HeaderTensor& tensor);
  // Adds a problem and says false unless dtype and shape are what the slot demands.
  bool Fits(size_t shard, const TensorSlots::Tensor& wanted, const HeaderTensor& tensor);
  // Of a shard that was fetched in part: whether the tensor is in that part.
  void CheckFetched(size_t shard, uint64_t data_offset, const HeaderTensor& tensor);
  void TellUnfetched();
  void CheckNothingIsMissing();
  void Throw() const;

  std::string DirNames() const;
  std::string ShardName(size_t shard) const;
  std::string FullName(size_t slot) const;

  Checkpoint& checkpoint_;
  std::span<const std::filesystem::path> dirs_;
  std::filesystem::path index_path_;
  bool indexed_ = false;
  ProblemList problems_;
  size_t io_problems_ = 0;

  std::vector<std::string> shard_names_;
  std::unordered_map<std::string, uint16_t> shard_ids_;
  std::string last_name_;  // of the shard that last_id_ means; entries come in runs
  uint16_t last_id_ = kNoShard;
  // By shard: missing or broken, so that nothing is known of (all) its tensors.
  std::vector<bool> unread_;
  std::optional<BlockSums> fetched_;  // of the shard that is being read, where only a part is there
  size_t unfetched_ = 0;              // tensors that are needed and were never fetched
  std::string first_unfetched_;
  bool allow_unfetched_ = false;
  std::vector<std::string> holed_;  // shards with holes that nothing tells the origin of
  size_t spare_shards_ = 0;  // the last ones: missing, but the part that is run needs none of them

  std::vector<uint16_t> promised_;  // by slot: the shard that the index names
  std::vector<bool> refused_;       // by slot: present, but wrong
  std::unordered_map<std::string, Stranger> strangers_;
  std::string expert_dtype_;  // of unpacked experts, once one is seen
  bool hinted_at_packing_ = false;
  std::string prefixed_name_;    // the first name with the prefix
  std::string unprefixed_name_;  // the first name without it
};

}  // namespace kimi_k3
