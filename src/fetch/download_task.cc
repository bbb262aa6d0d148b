// One file on its way: which blocks are there, which are wanted, where they are written.
#include "fetch/download_task.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "fetch/manifest.h"
#include "fetch/safe_name.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

std::string Reason() { return std::generic_category().message(errno); }

UniqueFd OpenForWriting(const fs::path& path, int flags) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666));
  if (!fd.valid()) Fail(ErrorKind::kIo, "{}: cannot write: {}", path.string(), Reason());
  return fd;
}

void WriteAt(const UniqueFd& fd, const fs::path& path, uint64_t offset,
             std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n = pwrite(fd.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Fail(ErrorKind::kIo, "{}: cannot write at offset {}: {}", path.string(), offset,
           n < 0 ? Reason() : "the system wrote nothing");
    }
    data = data.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void SyncFolder(const fs::path& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot sync the folder: {}", folder.string(), Reason());
  }
}

// What tells this content from any other.
std::string SourceOf(const RemoteFile& remote, const std::string& commit) {
  return remote.hash ? remote.hash->hex : "commit " + commit;
}

}  // namespace

DownloadTask::DownloadTask(const fs::path& folder, RemoteFile remote, std::vector<bool> wanted,
                           const std::string& commit, uint64_t block_bytes)
    : remote_(std::move(remote)),
      path_(PlaceInFolder(folder, remote_.name)),
      partial_(folder / kOwnFolder / (FlatName(remote_.name) + ".partial")),
      sums_path_(SumsPath(folder, remote_.name)),
      wanted_(std::move(wanted)),
      sums_(remote_.bytes, SourceOf(remote_, commit), block_bytes) {
  whole_ = std::ranges::find(wanted_, false) == wanted_.end();
  const auto left = BlockSums::Load(sums_path_);
  std::error_code error;
  const bool usable = left && left->file_bytes() == remote_.bytes &&
                      left->source() == sums_.source() &&
                      (wanted_.empty() || left->block_bytes() == block_bytes) &&
                      fs::is_regular_file(fs::symlink_status(partial_, error)) &&
                      fs::file_size(partial_, error) == remote_.bytes;
  if (usable) sums_ = *left;
  taken_.assign(sums_.blocks(), false);
  fresh_.assign(sums_.blocks(), false);
  writing_.assign(sums_.blocks(), false);
  for (size_t block = 0; block < sums_.blocks(); ++block) {
    if (Wanted(block) && !Has(block)) ++missing_blocks_;
  }
}

uint64_t DownloadTask::BytesWanted() const {
  uint64_t bytes = 0;
  for (size_t block = 0; block < sums_.blocks(); ++block) {
    if (Wanted(block)) bytes += sums_.BytesOf(block);
  }
  return bytes;
}

uint64_t DownloadTask::BytesMissing() const {
  uint64_t bytes = 0;
  for (size_t block = 0; block < sums_.blocks(); ++block) {
    if (Wanted(block) && !Has(block)) bytes += sums_.BytesOf(block);
  }
  return bytes;
}

void DownloadTask::Open() {
  if (open()) return;
  sums_.Save(sums_path_);
  sums_fd_ = OpenForWriting(sums_path_, 0);
  fd_ = OpenForWriting(partial_, 0);
  if (ftruncate(fd_.get(), static_cast<off_t>(remote_.bytes)) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot make it {} long: {}", partial_.string(),
         FormatByteSize(remote_.bytes), Reason());
  }
}

std::optional<BlockRun> DownloadTask::Take(size_t most) {
  const auto free = [this](size_t block) { return Wanted(block) && !Has(block) && !taken_[block]; };
  while (first_missing_ < sums_.blocks() && !free(first_missing_)) ++first_missing_;
  if (first_missing_ == sums_.blocks()) return std::nullopt;
  BlockRun run{first_missing_, first_missing_};
  while (run.end < sums_.blocks() && run.end - run.first < most && free(run.end)) {
    taken_[run.end++] = true;
  }
  return run;
}

void DownloadTask::GiveBack(const BlockRun& run) {
  for (size_t block = run.first; block < run.end; ++block) taken_[block] = false;
  first_missing_ = std::min(first_missing_, run.first);
}

bool DownloadTask::BeginWrite(size_t block) {
  if (!Wanted(block) || Has(block) || writing_[block]) return false;
  writing_[block] = true;
  return true;
}

void DownloadTask::WriteBlock(size_t block, std::span<const std::byte> data) const {
  WriteAt(fd_, partial_, sums_.OffsetOf(block), data);
}

void DownloadTask::ReadBlock(size_t block, std::span<std::byte> data) const {
  ReadExactly(fd_, partial_, sums_.OffsetOf(block), data);
}

void DownloadTask::MarkPresent(size_t block, uint64_t sum) {
  WriteAt(sums_fd_, sums_path_, BlockSums::PlaceOnDisk(block), std::as_bytes(std::span(&sum, 1)));
  if (Wanted(block) && !Has(block)) --missing_blocks_;
  sums_.Set(block, sum);
  fresh_[block] = true;
  writing_[block] = false;
}

void DownloadTask::MarkMissing(size_t block) {
  const uint64_t none = 0;
  WriteAt(sums_fd_, sums_path_, BlockSums::PlaceOnDisk(block), std::as_bytes(std::span(&none, 1)));
  if (Wanted(block) && Has(block)) ++missing_blocks_;
  sums_.Set(block, 0);
  fresh_[block] = false;
  first_missing_ = std::min(first_missing_, block);
}

void DownloadTask::MarkAllMissing() {
  for (size_t block = 0; block < sums_.blocks(); ++block) MarkMissing(block);
  etag.clear();
}

void DownloadTask::Sync() const {
  if (!open()) return;
  if (fdatasync(fd_.get()) != 0 || fdatasync(sums_fd_.get()) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot sync: {}", partial_.string(), Reason());
  }
}

void DownloadTask::Finish(const std::string& sha256) {
  Open();
  if (fsync(fd_.get()) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot sync: {}", partial_.string(), Reason());
  }
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) {
    Fail(ErrorKind::kIo, "{}: cannot make the folder: {}", path_.parent_path().string(),
         error.message());
  }
  if (rename(partial_.c_str(), path_.c_str()) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot rename to {}: {}", partial_.string(), path_.string(),
         Reason());
  }
  SyncFolder(path_.parent_path());
  fd_ = UniqueFd();
  sums_fd_ = UniqueFd();
  if (sha256.empty()) return;  // the sums tell which blocks are there
  if (sums_.blocks() < 2) {
    fs::remove(sums_path_, error);
    return;
  }
  BlockSums kept(remote_.bytes, sha256, sums_.block_bytes());
  for (size_t block = 0; block < kept.blocks(); ++block) kept.Set(block, sums_.sum(block));
  kept.Save(sums_path_);
}

}  // namespace kimi_k3
