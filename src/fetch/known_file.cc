// The files that a checkpoint should have, and what is known of each.
#include "fetch/known_file.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/shard_names.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

class KnownFileGatherer {
 public:
  explicit KnownFileGatherer(const std::vector<fs::path>& folders) : folders_(folders) {}

  KnownFiles Gather(const std::optional<fs::path>& hash_list) {
    if (hash_list) {
      for (auto& [name, hash] : ReadHashList(*hash_list)) {
        Know({FolderWith(folders_, name), name, hash, std::nullopt});
      }
    }
    for (const fs::path& folder : folders_) GatherFolder(folder, hash_list.has_value());
    GatherOwnFiles();
    GatherShards();
    return std::move(known_);
  }

 private:
  void GatherFolder(const fs::path& folder, bool has_list) {
    known_.manifests.push_back(Manifest::Load(folder));
    if (has_list) return;
    const std::optional<Manifest>& manifest = known_.manifests.back();
    if (!manifest) {
      for (auto& [name, hash] : ReadHubMetadata(folder)) Know({folder, name, hash, std::nullopt});
      return;
    }
    if (known_.part.empty()) known_.part = manifest->part;
    for (const ManifestFile& file : manifest->files) {
      KnownFile item{folder, file.name, std::nullopt, file.bytes};
      item.part = file.sha256.empty();
      if (!item.part) item.hash = ExpectedHash{DigestKind::kSha256, file.sha256};
      Know(std::move(item));
    }
  }

  void Know(KnownFile item) {
    const fs::path& folder = FolderWith(folders_, item.name);
    if (HasEntry(folder, item.name) && !HasEntry(item.folder, item.name)) item.folder = folder;
    const std::string name = item.name;
    known_.files.try_emplace(name, std::move(item));
  }

  KnownFile& Add(const std::string& name) {
    KnownFile item{FolderWith(folders_, name), name, std::nullopt, std::nullopt};
    return known_.files.try_emplace(name, std::move(item)).first->second;
  }

  void GatherOwnFiles() {
    for (const std::string_view name :
         {kConfigName, kIndexName, kTokenizerName, std::string_view("tokenizer_config.json")}) {
      if (HasEntry(FolderWith(folders_, name), name)) Add(std::string(name));
    }
  }

  void GatherShards() {
    const fs::path& folder = FolderWith(folders_, kIndexName);
    if (!HasEntry(folder, kIndexName)) {
      if (HasEntry(FolderWith(folders_, kSingleName), kSingleName)) {
        Add(std::string(kSingleName)).shard = true;
      }
      return;
    }
    std::string last;
    try {
      ReadTensorIndex(folder / kIndexName, [&](std::string_view, std::string_view file) {
        if (file == last) return;
        last = file;
        // Of a part, shards that hold nothing of it may be missing.
        if (!IsPlainFileName(file)) return;
        const bool there = HasEntry(FolderWith(folders_, file), file);
        if (there || known_.part.empty()) Add(last).shard = true;
      });
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;  // else the structure tells of it
    }
    for (auto& [name, item] : known_.files) {
      item.shard = item.shard || name.ends_with(".safetensors");
    }
  }

  const std::vector<fs::path>& folders_;
  KnownFiles known_;
};

}  // namespace

KnownFiles GatherKnownFiles(const std::vector<fs::path>& folders,
                            const std::optional<fs::path>& hash_list) {
  return KnownFileGatherer(folders).Gather(hash_list);
}

}  // namespace kimi_k3
