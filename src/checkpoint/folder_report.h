// What is told of the files in a model's folders: which are missing, and which are of no use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/shard_promises.h"

namespace kimi_k3 {

// "a, b".
std::string DirNames(std::span<const std::filesystem::path> folders);

// The first names of a list, and how many more there are.
std::string ListNames(const std::vector<std::string>& names);

// Throws Error(kCheckpoint) that tells what is there in place of an index and a single file.
[[noreturn]] void RefuseWithoutIndex(std::span<const std::filesystem::path> folders);

// Adds a problem that names the shards that must be there and are not. missing: some of those that
// the index names; wanted: how many of these must be there.
void TellMissingShards(const Checkpoint& checkpoint, const ShardPromises& promises,
                       const std::vector<std::string>& missing, size_t wanted,
                       ProblemList& problems);

// A warning for each file that looks like a shard and is not read.
std::vector<std::string> WarningsOfOtherFiles(const Checkpoint& checkpoint,
                                              const ShardPromises& promises);

}  // namespace kimi_k3
