// Opens a checkpoint: finds its shards, reads their headers and binds every tensor to its place.
#include "checkpoint/checkpoint_opener.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/folder_report.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/shard_header.h"
#include "checkpoint/synth_tensors.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedOfAFile = 5;  // problems

// Whether there is a file and not merely a link to one that is gone.
bool Reachable(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type() != fs::file_type::not_found;
}

}  // namespace

CheckpointOpener::CheckpointOpener(Checkpoint& checkpoint, size_t listed_problems)
    : checkpoint_(checkpoint),
      dirs_(checkpoint.model_dirs_),
      index_path_(FolderWith(dirs_, kIndexName) / kIndexName),
      problems_(listed_problems, kListedOfAFile),
      promises_(checkpoint.slots_),
      prefix_(DirNames(dirs_)) {}

void CheckpointOpener::Run() {
  if (HasEntry(index_path_.parent_path(), kIndexName)) {
    ReadIndex();
    PlaceShards();
    CheckShardsExist();
    for (std::string& warning : WarningsOfOtherFiles(checkpoint_, promises_)) {
      checkpoint_.warnings_.push_back(std::move(warning));
    }
  } else {
    FindSingleFile();
  }
  TensorBinder binder = MakeBinder();
  ReadShards(binder);
  TellUnfetched();
  CheckNothingIsMissing(binder);
  if (!problems_.empty()) Throw();
  TakeCounts(binder.counts());
  checkpoint_.shards_.resize(checkpoint_.shards_.size() - spare_shards_);
  std::string& prefix = checkpoint_.config_.name_prefix;
  prefix = std::string(prefix_.Text(prefix));
}

Checkpoint CheckpointOpener::WithUnfetched(std::vector<fs::path> model_dirs) {
  if (model_dirs.empty()) Fail(ErrorKind::kUsage, "no model folder is given");
  CheckFolders(model_dirs);
  ModelConfig config = LoadModelConfig(FolderWith(model_dirs, kConfigName));
  Checkpoint checkpoint(std::move(model_dirs), std::move(config));
  CheckpointOpener opener(checkpoint);
  opener.allow_unfetched_ = true;
  opener.Run();
  return checkpoint;
}

Checkpoint CheckpointOpener::FromIndex(std::vector<fs::path> model_dirs) {
  if (model_dirs.empty()) Fail(ErrorKind::kUsage, "no model folder is given");
  CheckFolders(model_dirs);
  ModelConfig config = LoadModelConfig(FolderWith(model_dirs, kConfigName));
  Checkpoint checkpoint(std::move(model_dirs), std::move(config));
  CheckpointOpener(checkpoint).RunWithoutShards();
  return checkpoint;
}

void CheckpointOpener::RunWithoutShards() {
  if (!HasEntry(index_path_.parent_path(), kIndexName)) RefuseWithoutIndex(dirs_);
  ReadIndex();
  for (const std::string& name : promises_.shard_names()) {
    checkpoint_.shards_.push_back({FolderWith(dirs_, name) / name, 0});
  }
  unread_.assign(promises_.shard_names().size(), false);
  const SynthTensors published(checkpoint_.config_, LoadConfigJson(dirs_));
  TensorBinder binder = MakeBinder();
  for (size_t unit = 0; unit < published.units(); ++unit) {
    published.Visit(unit, [&](const SynthTensor& tensor) { binder.Assume(tensor); });
  }
  CheckNothingIsMissing(binder);
  if (!problems_.empty()) Throw();
  TakeCounts(binder.counts());
}

TensorBinder CheckpointOpener::MakeBinder() {
  return {{checkpoint_, checkpoint_.slots_, checkpoint_.locations_},
          index_path_,
          promises_,
          prefix_,
          problems_};
}

void CheckpointOpener::TakeCounts(const TensorCounts& counts) {
  checkpoint_.tensor_count_ = counts.tensors;
  checkpoint_.tensor_bytes_ = counts.bytes;
  checkpoint_.ignored_tensor_count_ = counts.ignored;
}

void CheckpointOpener::Throw() const {
  const bool all_io = io_problems_ == problems_.count();
  throw Error(all_io ? ErrorKind::kIo : ErrorKind::kCheckpoint, problems_.Text());
}

std::string CheckpointOpener::FullName(size_t slot) const {
  return fmt::format("{}{}", prefix_.Text(checkpoint_.config_.name_prefix),
                     TensorSlots::Name(checkpoint_.slots_.Describe(slot)));
}

void CheckpointOpener::ReadIndex() { promises_.Read(index_path_, prefix_, problems_); }

bool CheckpointOpener::Needed(size_t slot) const {
  const ModelConfig& config = checkpoint_.config_;
  if (!config.is_part() || !checkpoint_.slots_.InLayer(slot)) return true;
  const TensorSlots::Tensor tensor = checkpoint_.slots_.Describe(slot);
  if (!config.part.layers.Has(tensor.layer)) return false;
  return tensor.spec->kind != TensorKind::kExpert || config.part.experts.Has(tensor.expert);
}

std::vector<bool> CheckpointOpener::NeededShards() const {
  if (!checkpoint_.config_.is_part()) {
    return std::vector<bool>(promises_.shard_names().size(), true);
  }
  return promises_.NeededShards([this](size_t slot) { return Needed(slot); });
}

// In the order of their names, whatever the order of the index; missing ones that are not needed
// come last.
void CheckpointOpener::PlaceShards() {
  const std::vector<bool> needed = NeededShards();
  const std::vector<std::string>& names = promises_.shard_names();
  std::vector<fs::path> paths;
  std::vector<bool> spare;
  std::vector<uint16_t> order;
  for (size_t i = 0; i < names.size(); ++i) {
    paths.push_back(FolderWith(dirs_, names[i]) / names[i]);
    spare.push_back(!needed[i] && !Reachable(paths[i]));
    order.push_back(static_cast<uint16_t>(i));
  }
  std::sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return spare[a] != spare[b] ? spare[b] : names[a] < names[b];
  });
  for (const uint16_t shard : order) checkpoint_.shards_.push_back({paths[shard], 0});
  promises_.Reorder(order);
  spare_shards_ = static_cast<size_t>(std::count(spare.begin(), spare.end(), true));
}

void CheckpointOpener::FindSingleFile() {
  const fs::path path = FolderWith(dirs_, kSingleName) / kSingleName;
  if (!HasEntry(path.parent_path(), kSingleName)) RefuseWithoutIndex(dirs_);
  checkpoint_.shards_.push_back({path, 0});
  promises_.UseSingle(kSingleName);
  unread_.assign(1, false);
}

void CheckpointOpener::CheckShardsExist() {
  const std::vector<std::string>& names = promises_.shard_names();
  unread_.assign(names.size(), false);
  std::vector<std::string> missing;
  const size_t wanted = names.size() - spare_shards_;
  for (size_t i = 0; i < names.size(); ++i) {
    const fs::path& path = checkpoint_.shards_[i].path;
    unread_[i] = i >= wanted || !HasEntry(path.parent_path(), names[i]);
    if (unread_[i] && i < wanted) missing.push_back(names[i]);
  }
  if (!missing.empty()) TellMissingShards(checkpoint_, promises_, missing, wanted, problems_);
}

void CheckpointOpener::ReadShards(TensorBinder& binder) {
  SafetensorsHeaderParser parser;
  for (size_t shard = 0; shard < checkpoint_.shards_.size(); ++shard) {
    if (unread_[shard]) continue;
    try {
      unread_[shard] = !ReadHeader(shard, parser, binder);
    } catch (const Error& error) {
      unread_[shard] = true;
      if (error.kind() == ErrorKind::kIo) ++io_problems_;
      problems_.AddAlways("{}", error.what());
    }
  }
}

bool CheckpointOpener::ReadHeader(size_t index, SafetensorsHeaderParser& parser,
                                  TensorBinder& binder) {
  Shard& shard = checkpoint_.shards_[index];
  const OpenFile file = OpenRegularFile(shard.path);
  shard.bytes = file.bytes;
  unfetched_.BeginShard(shard.path, file);
  const uint64_t data = LoadShardHeader(shard.path, file, parser);
  const bool known = parser.Parse(
      file.bytes - data, shard.path.string(), problems_, [&](const HeaderTensor& tensor) {
        const auto slot = binder.Bind(index, data, tensor);
        if (slot && Needed(*slot)) {
          unfetched_.Take(tensor.name, data + tensor.begin, data + tensor.end);
        }
      });
  unfetched_.EndShard(file, parser.made_of_holes());
  return known;
}

void CheckpointOpener::TellUnfetched() {
  std::vector<std::string>& warnings = checkpoint_.warnings_;
  if (const auto holes = unfetched_.TellHoles(dirs_, promises_.shard_names().size())) {
    warnings.push_back(*holes);
  }
  const auto unfetched = unfetched_.TellUnfetched(dirs_);
  if (!unfetched) return;
  if (allow_unfetched_) {
    warnings.push_back(*unfetched);
  } else {
    problems_.Add("{}", *unfetched);
  }
}

void CheckpointOpener::CheckNothingIsMissing(const TensorBinder& binder) {
  const bool all_read = std::find(unread_.begin(), unread_.end(), true) == unread_.end();
  for (size_t slot = 0; slot < checkpoint_.slots_.count(); ++slot) {
    if (binder.refused(slot) || checkpoint_.locations_.Get(slot) || !Needed(slot)) continue;
    const uint16_t promised = promises_.OfSlot(slot);
    const bool known =
        promised != ShardPromises::kNoShard ? !unread_[promised] : promises_.indexed() || all_read;
    if (known) TellMissing(slot);
  }
  for (const auto& [name, promised] : promises_.strangers()) {
    if (unread_[promised] || binder.HasStranger(name)) continue;
    problems_.Add("{}: tensor {} is missing, though {} says that it is here",
                  checkpoint_.shards_[promised].path.string(), Printable(name), kIndexName);
  }
}

void CheckpointOpener::TellMissing(size_t slot) {
  const uint16_t promised = promises_.OfSlot(slot);
  const bool indexed = promised != ShardPromises::kNoShard;
  const std::string source =
      indexed ? checkpoint_.shards_[promised].path.string() : DirNames(dirs_);
  if (problems_.full(source)) {
    problems_.Count(source);
  } else if (indexed) {
    problems_.Add("{}: tensor {} is missing, though {} says that it is here", source,
                  FullName(slot), kIndexName);
  } else {
    problems_.Add("{}: tensor {} is missing, and config.json demands it", source, FullName(slot));
  }
}

}  // namespace kimi_k3
