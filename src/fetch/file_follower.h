// Reads the files of a download as they grow, compares them with their hashes, and finishes them.
#pragma once

#include <functional>
#include <string>

#include "fetch/download_board.h"

namespace kimi_k3 {

struct FollowerOptions {
  // A file is finished: what is to be remembered of it. sha256: of the whole file; empty where only
  // a part of it is there. One call at a time.
  std::function<void(const RemoteFile& file, const std::string& sha256)> finished;
  std::function<void(const std::string&)> note;  // trouble that was overcome; may be empty
};

// Follows file after file until all are done, the download fails, or it is stopped. A file whose
// hash is wrong is fetched once more; where it is wrong then too, throws Error(kRun). Several
// threads may run it at once.
void FollowFiles(DownloadBoard& board, const FollowerOptions& options);

}  // namespace kimi_k3
