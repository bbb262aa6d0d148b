// What is remembered of a downloaded folder: where it came from, and the hash of every file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/fetched_part.h"
#include "fetch/digest.h"

namespace kimi_k3 {

struct ManifestFile {
  std::string name;  // relative to the folder
  uint64_t bytes = 0;
  std::string sha256;  // empty where only a part of the file is there
};

// .kimi_k3/manifest.json.
struct Manifest {
  std::string endpoint, repository, revision, commit;  // empty where it was not downloaded
  std::string part;                                    // as --shard has it; empty: all
  std::vector<ManifestFile> files;                     // sorted by name

  // Nothing where there is none. Throws Error(kCheckpoint) for one that cannot be understood.
  static std::optional<Manifest> Load(const std::filesystem::path& folder);
  // Whole or not at all; makes the folder. Throws Error(kIo).
  void Save(const std::filesystem::path& folder) const;

  const ManifestFile* Find(std::string_view name) const;
  // Adds the file or replaces what was known of it.
  void Set(ManifestFile file);
};

// Hashes by file name in the format of sha256sum ("HASH  NAME" or "HASH *NAME" a line). Throws
// Error(kUsage) naming the line that is not of this form, or a name that leads out of a folder.
std::map<std::string, ExpectedHash> ReadHashList(const std::filesystem::path& file);

// Hashes that the huggingface client left in .cache/huggingface/download; empty without any.
std::map<std::string, ExpectedHash> ReadHubMetadata(const std::filesystem::path& folder);

}  // namespace kimi_k3
