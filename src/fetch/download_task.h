// One file on its way: which blocks are there, which are wanted, where they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/block_sums.h"
#include "fetch/repository.h"

namespace kimi_k3 {

// A run of blocks [first, end) that one connection fetches.
struct BlockRun {
  size_t first = 0;
  size_t end = 0;
};

// The data are written to .kimi_k3/NAME.partial, the sums of its blocks beside it; only a finished
// file has its own name. Not thread-safe but for WriteBlock and ReadBlock of different blocks.
class DownloadTask {
 public:
  // wanted: by block; empty for all of them. commit: stands for the content where the server tells
  // no hash. block_bytes: of files that are begun anew.
  DownloadTask(const std::filesystem::path& folder, RemoteFile remote, std::vector<bool> wanted,
               const std::string& commit, uint64_t block_bytes);

  const RemoteFile& remote() const { return remote_; }
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& partial() const { return partial_; }
  const BlockSums& sums() const { return sums_; }
  // Whether every block of the file is wanted, so that its hash can be checked.
  bool whole() const { return whole_; }
  bool Wanted(size_t block) const { return whole_ || wanted_[block]; }
  bool Has(size_t block) const { return sums_.Has(block); }
  bool HasAllWanted() const { return missing_blocks_ == 0; }
  uint64_t BytesWanted() const;
  uint64_t BytesMissing() const;
  size_t missing_blocks() const { return missing_blocks_; }

  // Opens (or makes) the two files and takes up what an earlier run left. Throws Error(kIo).
  void Open();
  bool open() const { return fd_.valid(); }

  // Takes blocks for a connection: the first that are wanted, not there and not taken, at most
  // `most` in a row. Nothing where there are none.
  std::optional<BlockRun> Take(size_t most);
  void GiveBack(const BlockRun& run);

  // Whether the block is wanted, not there, and being written by nobody else; then it is being
  // written by the caller, until MarkPresent.
  bool BeginWrite(size_t block);
  // Writes a block's data, not yet its sum; any thread.
  void WriteBlock(size_t block, std::span<const std::byte> data) const;
  void ReadBlock(size_t block, std::span<std::byte> data) const;
  // The block is there now. fresh: written by this run, so that it need not be read to be believed.
  void MarkPresent(size_t block, uint64_t sum);
  void MarkMissing(size_t block);
  void MarkAllMissing();
  bool Fresh(size_t block) const { return fresh_[block]; }
  void Sync() const;

  // Gives the file its name. sha256: of the whole file; empty where only a part is there. Throws
  // Error(kIo).
  void Finish(const std::string& sha256);

  // A server that knows no ranges is read from the beginning by one connection at a time.
  bool no_ranges = false;
  bool read_whole_now = false;
  std::string etag;       // of the first response
  unsigned restarts = 0;  // fetched anew since its content was wrong
  bool done = false;

 private:
  RemoteFile remote_;
  std::filesystem::path path_, partial_, sums_path_;
  bool whole_ = true;
  std::vector<bool> wanted_, taken_, fresh_, writing_;
  BlockSums sums_;
  size_t missing_blocks_ = 0;
  size_t first_missing_ = 0;  // no wanted block before it is missing and free
  UniqueFd fd_, sums_fd_;
};

}  // namespace kimi_k3
