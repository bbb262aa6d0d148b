// What of the shards was never fetched or never written, gathered so that it can be told at once.
#include "checkpoint/unfetched_tensors.h"

#include "checkpoint/fetched_part.h"
#include "checkpoint/file_hole.h"
#include "checkpoint/folder_report.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {

void UnfetchedTensors::BeginShard(const std::filesystem::path& path, const OpenFile& file) {
  path_ = path;
  fetched_ = FetchedPart(path, file.bytes);
}

void UnfetchedTensors::Take(std::string_view name, uint64_t begin, uint64_t end) {
  if (!fetched_ || fetched_->HasBytes(begin, end)) return;
  if (unfetched_++ > 0) return;
  first_unfetched_ = fmt::format("{} in {}", Printable(name), path_.string());
}

void UnfetchedTensors::EndShard(const OpenFile& file, bool made_of_holes) {
  if (fetched_ || made_of_holes || !FirstHole(file)) return;
  holed_.push_back(path_.filename().string());
}

std::optional<std::string> UnfetchedTensors::TellHoles(
    std::span<const std::filesystem::path> folders, size_t shards) const {
  if (holed_.empty()) return std::nullopt;
  return fmt::format(
      "{}: {} of the {} shards have holes, which read as zeros ({}): a download with holes is not "
      "whole (kimi_k3 verify tells)",
      DirNames(folders), holed_.size(), shards, ListNames(holed_));
}

std::optional<std::string> UnfetchedTensors::TellUnfetched(
    std::span<const std::filesystem::path> folders) const {
  if (unfetched_ == 0) return std::nullopt;
  std::string part;
  for (const std::filesystem::path& dir : folders) {
    if (part.empty()) part = FetchedPartName(dir);
  }
  return fmt::format(
      "{}: holds only a part of the model{}; {} tensor{} outside it w{} never fetched (the first: "
      "{}). Run what is there{}, or fetch the rest with kimi_k3 pull",
      DirNames(folders), part.empty() ? "" : " (" + Printable(part) + ")", unfetched_,
      unfetched_ == 1 ? "" : "s", unfetched_ == 1 ? "as" : "ere", first_unfetched_,
      part.empty() ? " with --shard" : " with --shard " + Printable(part));
}

}  // namespace kimi_k3
