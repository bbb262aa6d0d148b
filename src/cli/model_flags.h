// The flags that say which model, and which part of it, a command works on.
#pragma once

#include "cli/flag_group.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Adds -m (which may be repeated) and --shard; `engine` must outlive the parse. Returns -m.
Flag AddModelFlags(FlagGroup& group, EngineOptions& engine,
                   const std::string& shard_help =
                       "Run only a part of the model, from the shards that hold it, such as "
                       "layers=0-11,experts=0-63; the answers are not the model's");

// Adds --overlay; `engine` must outlive the parse.
Flag AddOverlayFlag(FlagGroup& group, EngineOptions& engine);

// The folders that AddModelFlags has read.
std::vector<std::filesystem::path> ModelFolders(const EngineOptions& engine);

// Adds the folders of a checkpoint as a command's argument DIR or as -m, repeated where its files
// lie in several; one at least is required.
Flag AddFolders(FlagGroup& group, std::vector<std::filesystem::path>& folders);

}  // namespace kimi_k3
