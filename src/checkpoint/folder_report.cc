// What is told of the files in a model's folders: which are missing, and which are of no use.
#include "checkpoint/folder_report.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/shard_names.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedFiles = 20;

// " (there are ...)", or nothing.
std::string HintAtOtherFiles(std::span<const fs::path> folders, const ShardPromises& promises) {
  std::vector<std::string> others;
  for (const fs::path& dir : folders) {
    for (const std::string& name : ListSafetensors(dir)) {
      if (!promises.Names(name)) others.push_back(Printable(name));
    }
  }
  if (others.empty()) return {};
  return fmt::format(" (there are files that the index does not name: {})", ListNames(others));
}

}  // namespace

std::string DirNames(std::span<const fs::path> folders) {
  std::string names;
  for (const fs::path& dir : folders) {
    if (!names.empty()) names += ", ";
    names += dir.string();
  }
  return names;
}

std::string ListNames(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kListedFiles);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

void RefuseWithoutIndex(std::span<const fs::path> folders) {
  std::vector<std::string> found;
  size_t total = 0;
  for (const fs::path& dir : folders) {
    for (const std::string& name : ListSafetensors(dir)) {
      const auto number = ParseShardNumber(name);
      if (!number) continue;
      found.push_back(name);
      total = std::max(total, number->total);
    }
  }
  if (found.empty()) {
    Fail(ErrorKind::kCheckpoint, "{}: holds neither {} nor {}; is this a model's folder?",
         DirNames(folders), kIndexName, kSingleName);
  }
  Fail(ErrorKind::kCheckpoint,
       "{}: holds {} of {} shards ({}), but not {}, which says what is in them; fetch that file",
       DirNames(folders), found.size(), total, ListNames(found), kIndexName);
}

void TellMissingShards(const Checkpoint& checkpoint, const ShardPromises& promises,
                       const std::vector<std::string>& missing, size_t wanted,
                       ProblemList& problems) {
  const std::vector<fs::path>& folders = checkpoint.model_dirs();
  const bool one = missing.size() == 1;
  const std::string count =
      checkpoint.config().is_part()
          ? fmt::format("{} that this part needs {}", missing.size(), one ? "is" : "are")
          : fmt::format("{} {}", missing.size(), one ? "is" : "are");
  std::vector<std::string> labels;
  for (const std::string& name : missing) labels.push_back(ShardLabel(name));
  problems.Add(
      "{}: {} of the {} files that {} names are there, {} missing: {}. Fetching just {} again is "
      "enough{}",
      DirNames(folders), wanted - missing.size(), promises.shard_names().size(), kIndexName, count,
      ListNames(labels), one ? "this file" : "these files", HintAtOtherFiles(folders, promises));
}

std::vector<std::string> WarningsOfOtherFiles(const Checkpoint& checkpoint,
                                              const ShardPromises& promises) {
  const std::vector<std::string>& shards = promises.shard_names();
  std::vector<std::string> warnings;
  for (const fs::path& dir : checkpoint.model_dirs()) {
    for (const std::string& name : ListSafetensors(dir)) {
      const std::string path = Printable((dir / name).string());
      const auto shard = std::ranges::find(shards, name);
      if (shard == shards.end()) {
        warnings.push_back(fmt::format("{}: ignored, as {} does not name it", path, kIndexName));
        continue;
      }
      const fs::path& used = checkpoint.shards()[shard - shards.begin()].path;
      if (used == dir / name) continue;
      warnings.push_back(
          fmt::format("{}: ignored, as {} comes first", path, Printable(used.string())));
    }
  }
  return warnings;
}

}  // namespace kimi_k3
