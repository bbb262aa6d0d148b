// Getting a checkpoint from a repository: which files, in which order, and what a part needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fetch/downloader.h"

namespace kimi_k3 {

struct PullOptions {
  RepositoryAddress address;
  std::string part;      // as ParseModelPart reads it; empty: everything
  bool dry_run = false;  // find out and change nothing
  DownloadOptions download;
};

struct PullReport {
  std::string commit;
  size_t files = 0;
  uint64_t bytes = 0;          // that are wanted; of a part, of its shards an estimate where dry
  uint64_t bytes_missing = 0;  // when it began
  uint64_t bytes_fetched = 0;
  size_t unhashed = 0;  // files for which the server promises no hash
  std::vector<RemoteFile> listing;
};

// Brings the folder to the state of the repository's commit: everything, or of the shards only the
// blocks that hold tensors of the part (whole otherwise: files with holes, which a run of the part
// accepts). Throws Error: kUsage for a part that is none, a folder that belongs to another
// repository; kCheckpoint where the config of a part's model is refused; else as Downloader does.
PullReport Pull(const PullOptions& options);

// Makes the bad files of a folder ready to be fetched again, block by block where the sums of its
// blocks tell which are bad, else whole; Pull does the rest. names: of files in the folder's
// manifest. Throws Error(kIo).
void PrepareRepair(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace kimi_k3
