// Opens a checkpoint: finds its shards, reads their headers and binds every tensor to its place.
#include "checkpoint/checkpoint_opener.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/fetched_part.h"
#include "checkpoint/file_hole.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/shard_header.h"
#include "checkpoint/shard_names.h"
#include "checkpoint/synth_tensors.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedFiles = 20;
constexpr size_t kListedOfAFile = 5;  // problems

bool IsIgnored(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
}

// Whether there is a file and not merely a link to one that is gone.
bool Reachable(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type() != fs::file_type::not_found;
}

// The first names of a list, and how many more there are.
std::string ListNames(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kListedFiles);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

CheckpointOpener::CheckpointOpener(Checkpoint& checkpoint, size_t listed_problems)
    : checkpoint_(checkpoint),
      dirs_(checkpoint.model_dirs_),
      index_path_(FolderWith(dirs_, kIndexName) / kIndexName),
      problems_(listed_problems, kListedOfAFile) {}

void CheckpointOpener::Run() {
  const size_t slots = checkpoint_.slots_.count();
  refused_.assign(slots, false);
  indexed_ = HasEntry(index_path_.parent_path(), kIndexName);
  if (indexed_) {
    promised_.assign(slots, kNoShard);
    ReadIndex();
    PlaceShards();
    CheckShardsExist();
    WarnOfOtherFiles();
  } else {
    FindSingleFile();
  }
  ReadShards();
  TellUnfetched();
  CheckNothingIsMissing();
  if (!problems_.empty()) Throw();
  checkpoint_.shards_.resize(checkpoint_.shards_.size() - spare_shards_);
  if (!prefixed_name_.empty() || !unprefixed_name_.empty()) {
    checkpoint_.config_.name_prefix = prefixed_name_.empty() ? "" : kNamePrefix;
  }
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
  if (!HasEntry(index_path_.parent_path(), kIndexName)) RefuseWithoutIndex();
  indexed_ = true;
  promised_.assign(checkpoint_.slots_.count(), kNoShard);
  refused_.assign(checkpoint_.slots_.count(), false);
  ReadIndex();
  for (const std::string& name : shard_names_) {
    checkpoint_.shards_.push_back({FolderWith(dirs_, name) / name, 0});
  }
  unread_.assign(shard_names_.size(), false);
  const SynthTensors published(checkpoint_.config_, LoadConfigJson(dirs_));
  for (size_t unit = 0; unit < published.units(); ++unit) {
    published.Visit(unit, [this](const SynthTensor& tensor) { Assume(tensor); });
  }
  CheckNothingIsMissing();
  if (!problems_.empty()) Throw();
}

void CheckpointOpener::Assume(const SynthTensor& tensor) {
  const auto match = checkpoint_.slots_.Find(tensor.name);
  if (!match) {
    const auto stranger = strangers_.find(tensor.name);
    if (stranger == strangers_.end()) return;
    stranger->second.found = stranger->second.promised;
    ++checkpoint_.ignored_tensor_count_;
  } else {
    const uint16_t shard = promised_[match->slot];
    if (shard == kNoShard) return;
    checkpoint_.locations_.Set(match->slot, {shard, 0, tensor.dtype == Dtype::kF32});
  }
  ++checkpoint_.tensor_count_;
  checkpoint_.tensor_bytes_ += tensor.bytes;
}

void CheckpointOpener::Throw() const {
  const bool all_io = io_problems_ == problems_.count();
  throw Error(all_io ? ErrorKind::kIo : ErrorKind::kCheckpoint, problems_.Text());
}

std::string CheckpointOpener::ShardName(size_t shard) const {
  return checkpoint_.shards_[shard].path.string();
}

std::string CheckpointOpener::FullName(size_t slot) const {
  const std::string_view prefix =
      !prefixed_name_.empty() ||
              (unprefixed_name_.empty() && !checkpoint_.config_.name_prefix.empty())
          ? kNamePrefix
          : "";
  return fmt::format("{}{}", prefix, TensorSlots::Name(checkpoint_.slots_.Describe(slot)));
}

uint16_t CheckpointOpener::ShardId(std::string_view file_name) {
  if (last_id_ != kNoShard && file_name == last_name_) return last_id_;
  const auto [found, added] =
      shard_ids_.try_emplace(std::string(file_name), static_cast<uint16_t>(shard_names_.size()));
  if (added) {
    if (!IsPlainFileName(file_name)) {
      Fail(ErrorKind::kCheckpoint,
           "{}: names the file \"{}\"; shards must lie in the model's own folder under a plain "
           "name",
           index_path_.string(), Printable(file_name));
    }
    if (shard_names_.size() + 1 >= LocationTable::kShardLimit) {
      Fail(ErrorKind::kCheckpoint, "{}: names more than {} files", index_path_.string(),
           LocationTable::kShardLimit - 1);
    }
    shard_names_.emplace_back(file_name);
  }
  last_name_ = file_name;
  last_id_ = found->second;
  return last_id_;
}

void CheckpointOpener::Promise(std::string_view name, std::string_view file_name) {
  const uint16_t shard = ShardId(file_name);
  const auto match = checkpoint_.slots_.Find(name);
  uint16_t* promised = nullptr;
  if (match) {
    NotePrefix(match->prefixed, name);
    promised = &promised_[match->slot];
  } else {
    promised = &strangers_[std::string(name)].promised;
  }
  if (*promised != kNoShard) {
    problems_.Add("{}: tensor {} is named twice", index_path_.string(), Printable(name));
  }
  *promised = shard;
}

void CheckpointOpener::ReadIndex() {
  ReadTensorIndex(index_path_, [this](std::string_view name, std::string_view file_name) {
    Promise(name, file_name);
  });
}

bool CheckpointOpener::Needed(size_t slot) const {
  const ModelConfig& config = checkpoint_.config_;
  if (!config.is_part() || !checkpoint_.slots_.InLayer(slot)) return true;
  const TensorSlots::Tensor tensor = checkpoint_.slots_.Describe(slot);
  if (!config.part.layers.Has(tensor.layer)) return false;
  return tensor.spec->kind != TensorKind::kExpert || config.part.experts.Has(tensor.expert);
}

std::vector<bool> CheckpointOpener::NeededShards() const {
  if (!checkpoint_.config_.is_part()) return std::vector<bool>(shard_names_.size(), true);
  std::vector<bool> needed(shard_names_.size(), false);
  for (size_t slot = 0; slot < promised_.size(); ++slot) {
    if (promised_[slot] != kNoShard && Needed(slot)) needed[promised_[slot]] = true;
  }
  return needed;
}

// In the order of their names, whatever the order of the index; missing ones that are not needed
// come last.
void CheckpointOpener::PlaceShards() {
  const std::vector<bool> needed = NeededShards();
  std::vector<fs::path> paths;
  std::vector<bool> spare;
  std::vector<uint16_t> order;
  for (size_t i = 0; i < shard_names_.size(); ++i) {
    paths.push_back(FolderWith(dirs_, shard_names_[i]) / shard_names_[i]);
    spare.push_back(!needed[i] && !Reachable(paths[i]));
    order.push_back(static_cast<uint16_t>(i));
  }
  std::sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return spare[a] != spare[b] ? spare[b] : shard_names_[a] < shard_names_[b];
  });
  std::vector<uint16_t> rank(order.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<uint16_t>(i);
    checkpoint_.shards_.push_back({paths[order[i]], 0});
    names.push_back(shard_names_[order[i]]);
  }
  for (uint16_t& shard : promised_) {
    if (shard != kNoShard) shard = rank[shard];
  }
  for (auto& [name, stranger] : strangers_) stranger.promised = rank[stranger.promised];
  shard_names_ = std::move(names);
  spare_shards_ = static_cast<size_t>(std::count(spare.begin(), spare.end(), true));
}

void CheckpointOpener::FindSingleFile() {
  const fs::path path = FolderWith(dirs_, kSingleName) / kSingleName;
  if (!HasEntry(path.parent_path(), kSingleName)) RefuseWithoutIndex();
  checkpoint_.shards_.push_back({path, 0});
  shard_names_.emplace_back(kSingleName);
  unread_.assign(1, false);
}

void CheckpointOpener::RefuseWithoutIndex() {
  std::vector<std::string> found;
  size_t total = 0;
  for (const fs::path& dir : dirs_) {
    for (const std::string& name : ListSafetensors(dir)) {
      const auto number = ParseShardNumber(name);
      if (!number) continue;
      found.push_back(name);
      total = std::max(total, number->total);
    }
  }
  if (found.empty()) {
    Fail(ErrorKind::kCheckpoint, "{}: holds neither {} nor {}; is this a model's folder?",
         DirNames(), kIndexName, kSingleName);
  }
  Fail(ErrorKind::kCheckpoint,
       "{}: holds {} of {} shards ({}), but not {}, which says what is in them; fetch that file",
       DirNames(), found.size(), total, ListNames(found), kIndexName);
}

void CheckpointOpener::CheckShardsExist() {
  unread_.assign(shard_names_.size(), false);
  std::vector<std::string> missing;
  const size_t wanted = shard_names_.size() - spare_shards_;
  for (size_t i = 0; i < shard_names_.size(); ++i) {
    const fs::path& path = checkpoint_.shards_[i].path;
    unread_[i] = i >= wanted || !HasEntry(path.parent_path(), shard_names_[i]);
    if (unread_[i] && i < wanted) missing.push_back(ShardLabel(shard_names_[i]));
  }
  if (missing.empty()) return;
  std::vector<std::string> others;
  for (const fs::path& dir : dirs_) {
    for (const std::string& name : ListSafetensors(dir)) {
      if (!shard_ids_.contains(name)) others.push_back(Printable(name));
    }
  }
  const std::string hint =
      others.empty()
          ? ""
          : fmt::format(" (there are files that the index does not name: {})", ListNames(others));
  const bool one = missing.size() == 1;
  const std::string count =
      checkpoint_.config_.is_part()
          ? fmt::format("{} that this part needs {}", missing.size(), one ? "is" : "are")
          : fmt::format("{} {}", missing.size(), one ? "is" : "are");
  problems_.Add(
      "{}: {} of the {} files that {} names are there, {} missing: {}. Fetching just {} again is "
      "enough{}",
      DirNames(), wanted - missing.size(), shard_names_.size(), kIndexName, count,
      ListNames(missing), one ? "this file" : "these files", hint);
}

std::string CheckpointOpener::DirNames() const {
  std::string names;
  for (const fs::path& dir : dirs_) {
    if (!names.empty()) names += ", ";
    names += dir.string();
  }
  return names;
}

void CheckpointOpener::WarnOfOtherFiles() {
  for (const fs::path& dir : dirs_) {
    for (const std::string& name : ListSafetensors(dir)) {
      const std::string path = Printable((dir / name).string());
      const auto shard = std::ranges::find(shard_names_, name);
      if (shard == shard_names_.end()) {
        checkpoint_.warnings_.push_back(
            fmt::format("{}: ignored, as {} does not name it", path, kIndexName));
        continue;
      }
      const fs::path& used = checkpoint_.shards_[shard - shard_names_.begin()].path;
      if (used == dir / name) continue;
      checkpoint_.warnings_.push_back(
          fmt::format("{}: ignored, as {} comes first", path, Printable(used.string())));
    }
  }
}

void CheckpointOpener::ReadShards() {
  SafetensorsHeaderParser parser;
  for (size_t shard = 0; shard < checkpoint_.shards_.size(); ++shard) {
    if (unread_[shard]) continue;
    try {
      unread_[shard] = !ReadHeader(shard, parser);
    } catch (const Error& error) {
      unread_[shard] = true;
      if (error.kind() == ErrorKind::kIo) ++io_problems_;
      problems_.AddAlways("{}", error.what());
    }
  }
}

bool CheckpointOpener::ReadHeader(size_t index, SafetensorsHeaderParser& parser) {
  Shard& shard = checkpoint_.shards_[index];
  const OpenFile file = OpenRegularFile(shard.path);
  shard.bytes = file.bytes;
  fetched_ = FetchedPart(shard.path, file.bytes);
  const uint64_t data_offset = LoadShardHeader(shard.path, file, parser);
  const bool known =
      parser.Parse(file.bytes - data_offset, shard.path.string(), problems_,
                   [&](const HeaderTensor& tensor) { Bind(index, data_offset, tensor); });
  if (!fetched_ && FirstHole(file) && !parser.made_of_holes()) {
    holed_.push_back(shard_names_[index]);
  }
  return known;
}

void CheckpointOpener::NotePrefix(bool prefixed, std::string_view name) {
  std::string& first = prefixed ? prefixed_name_ : unprefixed_name_;
  if (!first.empty()) return;
  first = name;
  if (!prefixed_name_.empty() && !unprefixed_name_.empty()) {
    problems_.Add("{}: some tensors are named with \"{}\" in front ({}) and some without ({})",
                  DirNames(), kNamePrefix, prefixed_name_, unprefixed_name_);
  }
}

void CheckpointOpener::Bind(size_t shard, uint64_t data_offset, const HeaderTensor& tensor) {
  ++checkpoint_.tensor_count_;
  checkpoint_.tensor_bytes_ += tensor.end - tensor.begin;
  const auto match = checkpoint_.slots_.Find(tensor.name);
  if (!match) {
    BindStranger(shard, tensor);
    return;
  }
  NotePrefix(match->prefixed, tensor.name);
  if (const auto other = checkpoint_.locations_.Get(match->slot)) {
    // The header parser has told of a name that one shard holds twice.
    if (other->shard != shard) {
      problems_.Add("{}: tensor {} is in {} too", ShardName(shard), Printable(tensor.name),
                    ShardName(other->shard));
    }
    return;
  }
  if (indexed_) CheckPromise(shard, promised_[match->slot], tensor.name);
  if (!Fits(shard, checkpoint_.slots_.Describe(match->slot), tensor)) {
    refused_[match->slot] = true;
    return;
  }
  checkpoint_.locations_.Set(match->slot, {static_cast<uint32_t>(shard), data_offset + tensor.begin,
                                           tensor.dtype == DtypeName(Dtype::kF32)});
  if (fetched_ && Needed(match->slot)) CheckFetched(shard, data_offset, tensor);
}

void CheckpointOpener::CheckFetched(size_t shard, uint64_t data_offset,
                                    const HeaderTensor& tensor) {
  if (fetched_->HasBytes(data_offset + tensor.begin, data_offset + tensor.end)) return;
  if (unfetched_++ > 0) return;
  first_unfetched_ = fmt::format("{} in {}", Printable(tensor.name), ShardName(shard));
}

void CheckpointOpener::TellUnfetched() {
  std::vector<std::string>& warnings = checkpoint_.warnings_;
  if (!holed_.empty()) {
    warnings.push_back(fmt::format(
        "{}: {} of the {} shards have holes, which read as zeros ({}): a download with holes is "
        "not whole (kimi_k3 verify tells)",
        DirNames(), holed_.size(), shard_names_.size(), ListNames(holed_)));
  }
  if (unfetched_ == 0) return;
  std::string part;
  for (const fs::path& dir : dirs_) {
    if (part.empty()) part = FetchedPartName(dir);
  }
  const std::string text = fmt::format(
      "{}: holds only a part of the model{}; {} tensor{} outside it w{} never fetched (the first: "
      "{}). Run what is there{}, or fetch the rest with kimi_k3 pull",
      DirNames(), part.empty() ? "" : " (" + Printable(part) + ")", unfetched_,
      unfetched_ == 1 ? "" : "s", unfetched_ == 1 ? "as" : "ere", first_unfetched_,
      part.empty() ? " with --shard" : " with --shard " + Printable(part));
  if (allow_unfetched_) {
    warnings.push_back(text);
  } else {
    problems_.Add("{}", text);
  }
}

// Config and weights that come from two versions of a model differ in every expert; one line says
// why, before the list begins.
void CheckpointOpener::HintAtPacking(std::string_view name) {
  const bool packed = checkpoint_.config_.mxfp4_experts;
  const bool expert = name.find(".experts.") != std::string_view::npos;
  const bool other = name.ends_with(packed ? ".weight" : ".weight_packed");
  if (!expert || !other || std::exchange(hinted_at_packing_, true)) return;
  problems_.Add("{}: the experts are {}, but config.json has {}", DirNames(),
                packed ? "not packed" : "packed as MXFP4",
                packed ? "a quantization_config" : "no quantization_config");
}

void CheckpointOpener::BindStranger(size_t shard, const HeaderTensor& tensor) {
  if (IsIgnored(tensor.name)) {
    ++checkpoint_.ignored_tensor_count_;
  } else {
    HintAtPacking(tensor.name);
    problems_.Add("{}: tensor {} is not part of the model that config.json describes",
                  ShardName(shard), Printable(tensor.name));
  }
  Stranger& stranger = strangers_[std::string(tensor.name)];
  if (stranger.found != kNoShard && stranger.found != shard) {
    problems_.Add("{}: tensor {} is in {} too", ShardName(shard), Printable(tensor.name),
                  ShardName(stranger.found));
  }
  stranger.found = static_cast<uint16_t>(shard);
  if (indexed_) CheckPromise(shard, stranger.promised, tensor.name);
}

void CheckpointOpener::CheckPromise(size_t shard, uint16_t promised, std::string_view name) {
  if (promised == shard) return;
  if (promised == kNoShard) {
    problems_.Add("{}: tensor {} is not named by {}", ShardName(shard), Printable(name),
                  kIndexName);
  } else {
    problems_.Add("{}: says that tensor {} is in {}, but it is in {}", index_path_.string(),
                  Printable(name), shard_names_[promised], shard_names_[shard]);
  }
}

// Experts are read into slots of one size, so all are bf16 or all f32.
bool CheckpointOpener::AlikeExpert(size_t shard, const HeaderTensor& tensor) {
  if (expert_dtype_.empty()) expert_dtype_ = tensor.dtype;
  if (expert_dtype_ == tensor.dtype) return true;
  problems_.Add("{}: tensor {} is stored as {}, but experts before it as {}; all must be alike",
                ShardName(shard), Printable(tensor.name), tensor.dtype, expert_dtype_);
  return false;
}

bool CheckpointOpener::Fits(size_t shard, const TensorSlots::Tensor& wanted,
                            const HeaderTensor& tensor) {
  const ModelConfig& config = checkpoint_.config_;
  const TensorSpec& spec = *wanted.spec;
  const bool packed = config.mxfp4_experts && spec.kind == TensorKind::kExpert;
  const bool dtype_fits =
      packed ? tensor.dtype == DtypeName(Dtype::kU8)
             : tensor.dtype == DtypeName(Dtype::kBf16) || tensor.dtype == DtypeName(Dtype::kF32);
  if (!dtype_fits) {
    problems_.Add("{}: tensor {} is stored as {}; here it must be {}", ShardName(shard),
                  Printable(tensor.name), Printable(tensor.dtype, 40),
                  packed ? "U8 (MXFP4)" : "BF16 or F32");
    return false;
  }
  if (!packed && spec.kind == TensorKind::kExpert && !AlikeExpert(shard, tensor)) return false;
  const bool shape_fits = wanted.scales ? std::ranges::equal(tensor.shape, ScaleShape(spec))
                                        : ShapeFits(spec, config, tensor.shape);
  if (!shape_fits) {
    const auto shape = wanted.scales ? ScaleShape(spec) : DiskShape(spec, config);
    problems_.Add("{}: tensor {} has the shape {}, but config.json demands {}", ShardName(shard),
                  Printable(tensor.name), ShapeText(tensor.shape), ShapeText(shape));
  }
  return shape_fits;
}

void CheckpointOpener::CheckNothingIsMissing() {
  const bool all_read = std::find(unread_.begin(), unread_.end(), true) == unread_.end();
  for (size_t slot = 0; slot < checkpoint_.slots_.count(); ++slot) {
    if (refused_[slot] || checkpoint_.locations_.Get(slot) || !Needed(slot)) continue;
    const uint16_t promised = indexed_ ? promised_[slot] : kNoShard;
    const bool known = promised != kNoShard ? !unread_[promised] : indexed_ || all_read;
    if (!known) continue;
    const std::string source = promised != kNoShard ? ShardName(promised) : DirNames();
    if (problems_.full(source)) {
      problems_.Count(source);
    } else if (promised != kNoShard) {
      problems_.Add("{}: tensor {} is missing, though {} says that it is here", source,
                    FullName(slot), kIndexName);
    } else {
      problems_.Add("{}: tensor {} is missing, and config.json demands it", source, FullName(slot));
    }
  }
  for (const auto& [name, stranger] : strangers_) {
    if (stranger.found != kNoShard || unread_[stranger.promised]) continue;
    problems_.Add("{}: tensor {} is missing, though {} says that it is here",
                  ShardName(stranger.promised), Printable(name), kIndexName);
  }
}

}  // namespace kimi_k3
