// Every tensor of a checkpoint by name: dtype, shape, file and place, also while shards are
// missing.
#include "checkpoint/tensor_listing.h"

#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "checkpoint/checkpoint_opener.h"
#include "checkpoint/fetched_part.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/shard_header.h"
#include "checkpoint/synth_tensors.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

// The shards that an index names, each with whether it is there. Without an index: none.
std::vector<std::pair<std::string, bool>> ShardsOf(const std::vector<fs::path>& dirs) {
  CheckFolders(dirs);
  const fs::path& dir = FolderWith(dirs, kIndexName);
  if (!HasEntry(dir, kIndexName)) return {};
  std::set<std::string> names;
  std::string last;
  ReadTensorIndex(dir / kIndexName, [&](std::string_view, std::string_view file) {
    if (file == last) return;
    last = file;
    names.insert(last);
  });
  std::vector<std::pair<std::string, bool>> shards;
  shards.reserve(names.size());
  for (const std::string& name : names) {
    shards.emplace_back(name, HasEntry(FolderWith(dirs, name), name));
  }
  return shards;
}

std::vector<std::string> MissingOf(const std::vector<fs::path>& dirs) {
  std::vector<std::string> missing;
  for (auto& [name, there] : ShardsOf(dirs)) {
    if (!there) missing.push_back(name);
  }
  return missing;
}

}  // namespace

TensorListing::TensorListing(std::vector<fs::path> model_dirs)
    : missing_(MissingOf(model_dirs)),
      checkpoint_(missing_.empty() ? CheckpointOpener::WithUnfetched(std::move(model_dirs))
                                   : CheckpointOpener::FromIndex(std::move(model_dirs))),
      slots_(checkpoint_.config()) {
  files_ = checkpoint_.shards().size();
}

void TensorListing::Visit(FunctionRef<void(const ListedTensor&)> visit) const {
  SafetensorsHeaderParser parser;
  for (const Shard& shard : checkpoint_.shards()) {
    if (!HasEntry(shard.path.parent_path(), shard.path.filename().string())) continue;
    const std::string file = shard.path.filename().string();
    std::error_code error;
    const auto fetched = FetchedPart(shard.path, fs::file_size(shard.path, error));
    VisitShardTensors(shard.path, parser, [&](const HeaderTensor& tensor) {
      ListedTensor listed{tensor.name, tensor.dtype, tensor.shape, tensor.end - tensor.begin,
                          file,        shard.path,   tensor.begin, std::nullopt};
      if (fetched && !fetched->HasBytes(tensor.begin, tensor.end)) listed.offset.reset();
      if (const auto match = slots_.Find(tensor.name)) {
        listed.meaning = slots_.Describe(match->slot);
      }
      visit(listed);
    });
  }
  if (!missing_.empty()) VisitMissing(visit);
}

void TensorListing::VisitMissing(FunctionRef<void(const ListedTensor&)> visit) const {
  const std::set<std::string, std::less<>> missing(missing_.begin(), missing_.end());
  const auto& dirs = checkpoint_.model_dirs();
  const TensorSlots& slots = slots_;
  // By slot or, for tensors that the model ignores, by name: the missing shard that holds it.
  std::vector<const std::string*> file_of_slot(slots.count(), nullptr);
  std::unordered_map<std::string, const std::string*> file_of_name;
  ReadTensorIndex(FolderWith(dirs, kIndexName) / kIndexName,
                  [&](std::string_view name, std::string_view file) {
                    const auto found = missing.find(file);
                    if (found == missing.end()) return;
                    if (const auto match = slots.Find(name)) {
                      file_of_slot[match->slot] = &*found;
                    } else {
                      file_of_name.emplace(name, &*found);
                    }
                  });
  const SynthTensors published(checkpoint_.config(), LoadConfigJson(dirs));
  for (size_t unit = 0; unit < published.units(); ++unit) {
    published.Visit(unit, [&](const SynthTensor& tensor) {
      ListedTensor listed{
          tensor.name, DtypeName(tensor.dtype), tensor.shape, tensor.bytes, {}, {}, std::nullopt,
          std::nullopt};
      const std::string* file = nullptr;
      if (const auto match = slots.Find(tensor.name)) {
        file = file_of_slot[match->slot];
        listed.meaning = slots.Describe(match->slot);
      } else if (const auto found = file_of_name.find(tensor.name); found != file_of_name.end()) {
        file = found->second;
      }
      if (file == nullptr) return;
      listed.file = *file;
      visit(listed);
    });
  }
}

}  // namespace kimi_k3
