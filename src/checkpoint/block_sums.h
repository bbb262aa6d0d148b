// A sum for every block of a file: which blocks a download has, and which block of a file is bad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kimi_k3 {

// In memory, and on disk as docs/checkpoint_format.md describes it. On disk a block's sum is
// written after its data, so that after any end of the program every sum tells of data that was
// there; after a loss of power a block is what its sum says or counts as missing. Not thread-safe.
class BlockSums {
 public:
  static constexpr uint64_t kDefaultBlockBytes = uint64_t{1} << 20;

  // Of a file of which nothing is there. source: what the data come from (a hash, an ETag); sums of
  // another source are not taken up. block_bytes: a power of two, at least 4096.
  BlockSums(uint64_t file_bytes, std::string source, uint64_t block_bytes = kDefaultBlockBytes);

  // From disk; nothing where there is no such file or it is damaged.
  static std::optional<BlockSums> Load(const std::filesystem::path& path);
  // Whole, under a temporary name first. Throws Error(kIo).
  void Save(const std::filesystem::path& path) const;

  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t block_bytes() const { return block_bytes_; }
  const std::string& source() const { return source_; }
  size_t blocks() const { return sums_.size(); }
  uint64_t OffsetOf(size_t block) const { return block * block_bytes_; }
  uint64_t BytesOf(size_t block) const;
  // 0: the block is not there.
  uint64_t sum(size_t block) const { return sums_[block]; }
  bool Has(size_t block) const { return sums_[block] != 0; }
  // Whether every block with a byte of [begin, end) is there. Bytes beyond the file are not.
  bool HasBytes(uint64_t begin, uint64_t end) const;
  void Set(size_t block, uint64_t sum) { sums_[block] = sum; }
  bool complete() const;
  uint64_t BytesPresent() const;

  // Where in the file on disk a block's sum stands.
  static uint64_t PlaceOnDisk(size_t block);

 private:
  uint64_t file_bytes_ = 0;
  uint64_t block_bytes_ = kDefaultBlockBytes;
  std::string source_;
  std::vector<uint64_t> sums_;
};

}  // namespace kimi_k3
