// What of the shards was never fetched or never written, gathered so that it can be told at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/block_sums.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {

// Looks at one shard after another. Not thread-safe.
class UnfetchedTensors {
 public:
  // Begins with a shard. Throws Error(kIo).
  void BeginShard(const std::filesystem::path& path, const OpenFile& file);
  // A tensor of it that is needed; begin and end in the file.
  void Take(std::string_view name, uint64_t begin, uint64_t end);
  // Ends with it, once its header is parsed.
  void EndShard(const OpenFile& file, bool made_of_holes);

  // A warning for the shards with holes that nothing tells the origin of, where there are any.
  std::optional<std::string> TellHoles(std::span<const std::filesystem::path> folders,
                                       size_t shards) const;
  // A line for the tensors that were never fetched, where there are any.
  std::optional<std::string> TellUnfetched(std::span<const std::filesystem::path> folders) const;

 private:
  std::filesystem::path path_;        // of the shard
  std::optional<BlockSums> fetched_;  // of the shard, where only a part of it is there
  size_t unfetched_ = 0;
  std::string first_unfetched_;
  std::vector<std::string> holed_;  // names of shards
};

}  // namespace kimi_k3
