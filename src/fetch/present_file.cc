// Whether a file that is wanted is in the folder already, from an earlier download or from
// elsewhere.
#include "fetch/present_file.h"

#include <system_error>

#include "base/error.h"
#include "fetch/file_check.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

// A file of which more is wanted goes back to being partial.
void TakeUp(const DownloadTask& task) {
  std::error_code error;
  fs::rename(task.path(), task.partial(), error);
  if (!error) return;
  Fail(ErrorKind::kIo, "{}: cannot rename to {}: {}", task.path().string(), task.partial().string(),
       error.message());
}

// Of a file of which a part was fetched: whether enough of it is there.
bool HasWantedBlocks(const DownloadTask& task, const BlockSums& sums) {
  for (size_t block = 0; block < sums.blocks(); ++block) {
    if (task.Wanted(block) && !sums.Has(block)) return false;
  }
  return true;
}

// A file from elsewhere (or of an older commit) that has the right content is kept.
bool HasRightHash(const fs::path& folder, const DownloadTask& task, Manifest& manifest,
                  const std::atomic<bool>& stop) {
  const auto& hash = task.remote().hash;
  FileCheckRequest request;
  request.path = task.path();
  request.digests = {hash->kind, DigestKind::kSha256};
  request.sums = task.sums().blocks() > 1;
  std::atomic<uint64_t> read{0};
  const FileCheckResult result = CheckFile(request, read, stop);
  if (result.digests[0] != hash->hex) return false;
  if (result.sums) {
    BlockSums sums(result.bytes, result.digests[1], result.sums->block_bytes());
    for (size_t block = 0; block < sums.blocks(); ++block) sums.Set(block, result.sums->sum(block));
    sums.Save(SumsPath(folder, task.remote().name));
  }
  manifest.Set({task.remote().name, result.bytes, result.digests[1]});
  manifest.Save(folder);
  return true;
}

}  // namespace

bool IsPresent(const fs::path& folder, const DownloadTask& task, const std::string& commit,
               Manifest& manifest, const std::atomic<bool>& stop, FunctionRef<void()> reading) {
  const RemoteFile& remote = task.remote();
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(task.path(), error)) ||
      fs::file_size(task.path(), error) != remote.bytes) {
    return false;
  }
  const ManifestFile* known = manifest.Find(remote.name);
  if (known != nullptr && !known->sha256.empty() && known->bytes == remote.bytes) {
    const bool sha256 = remote.hash && remote.hash->kind == DigestKind::kSha256;
    if (sha256 ? remote.hash->hex == known->sha256 : manifest.commit == commit) return true;
  }
  if (const auto part = FetchedPart(task.path(), remote.bytes)) {
    if (part->source() != task.sums().source()) return false;
    if (!HasWantedBlocks(task, *part)) {
      TakeUp(task);
      return false;
    }
    if (known != nullptr) return true;
    manifest.Set({remote.name, remote.bytes, ""});  // a crash came between its name and the note
    manifest.Save(folder);
    return true;
  }
  if (!task.whole() || !remote.hash) return false;
  reading();
  return HasRightHash(folder, task, manifest, stop);
}

}  // namespace kimi_k3
