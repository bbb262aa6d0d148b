// The files that a checkpoint should have, and what is known of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fetch/digest.h"
#include "fetch/manifest.h"

namespace kimi_k3 {

// One file to look at, and what is known of it.
struct KnownFile {
  std::filesystem::path folder;
  std::string name;
  std::optional<ExpectedHash> hash;
  std::optional<uint64_t> bytes;
  bool shard = false;
  bool part = false;  // only blocks of it are there
  std::filesystem::path path() const { return folder / name; }
};

struct KnownFiles {
  std::map<std::string, KnownFile> files;          // by name
  std::vector<std::optional<Manifest>> manifests;  // by folder
  std::string part;  // that was fetched, as a manifest says it; empty: the whole
};

// Those whose hash is known (from the hash list, or else from the manifest of each folder, or else
// from what the huggingface client left there), the shards that the index names, config, index and
// tokenizer. Each is in the first folder that has it, or else in the one that knows of it.
// Throws Error(kUsage) for a hash list that is none, kCheckpoint for a manifest that cannot be
// read, kInterrupted.
KnownFiles GatherKnownFiles(const std::vector<std::filesystem::path>& folders,
                            const std::optional<std::filesystem::path>& hash_list);

}  // namespace kimi_k3
