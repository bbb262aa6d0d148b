// Reads the files of a download as they grow, compares them with their hashes, and finishes them.
#include "fetch/file_follower.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "base/error.h"
#include "fetch/digest.h"

namespace kimi_k3 {
namespace {

class Follower {
 public:
  Follower(DownloadBoard& board, const FollowerOptions& options, DownloadJob& job)
      : board_(board), options_(options), job_(job), task_(job.task) {}

  // False where the download is over before the file is.
  bool Run() {
    while (true) {
      Begin();
      for (size_t block = 0; block < task_.sums().blocks(); ++block) {
        if (task_.Wanted(block) && !Read(block)) return false;
      }
      const std::string hex = task_.whole() ? sha256_->Finish() : std::string();
      if (task_.whole() && !HashHolds(hex)) {
        FetchOnceMore(hex);
        continue;
      }
      board_.Finish(job_, hex, [&] { options_.finished(task_.remote(), hex); });
      return true;
    }
  }

 private:
  void Begin() {
    sha256_.emplace(DigestKind::kSha256);
    const auto& hash = task_.remote().hash;
    if (hash && hash->kind != DigestKind::kSha256) {
      other_ = BeginDigest(hash->kind, task_.remote().bytes);
    }
  }

  // Waits for the block and hashes it; one of an earlier run is believed if its sum is right, else
  // waited for again.
  bool Read(size_t block) {
    data_.resize(task_.sums().BytesOf(block));
    while (true) {
      if (!board_.Await(task_, block)) return false;
      task_.ReadBlock(block, data_);
      const auto sum = board_.SumToCheck(task_, block);
      if (!sum || SumOfBlock(data_) == *sum) break;
      board_.MarkMissing(task_, block);
    }
    if (task_.whole()) {
      sha256_->Update(data_);
      if (other_) other_->Update(data_);
    }
    return true;
  }

  bool HashHolds(const std::string& sha256) {
    const auto& hash = task_.remote().hash;
    return !hash || (other_ ? other_->Finish() : sha256) == hash->hex;
  }

  void FetchOnceMore(const std::string& sha256) {
    const RemoteFile& remote = task_.remote();
    if (board_.StartAgain(task_) > 1) {
      Fail(ErrorKind::kRun,
           "{}: its SHA-256 is {}, fetched twice, but the repository promises {}: the server gives "
           "something else than it should",
           remote.name, sha256, remote.hash->hex);
    }
    if (!options_.note) return;
    options_.note(fmt::format(
        "{}: does not have the hash that the repository promises: fetched once more", remote.name));
  }

  DownloadBoard& board_;
  const FollowerOptions& options_;
  DownloadJob& job_;
  DownloadTask& task_;
  std::optional<Digest> sha256_, other_;
  std::vector<std::byte> data_;
};

}  // namespace

void FollowFiles(DownloadBoard& board, const FollowerOptions& options) {
  while (DownloadJob* job = board.NextToFollow()) {
    if (!Follower(board, options, *job).Run()) return;
  }
}

}  // namespace kimi_k3
