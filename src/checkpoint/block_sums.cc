// A sum for every block of a file: which blocks a download has, and which block of a file is bad.
#include "checkpoint/block_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "base/file.h"

namespace kimi_k3 {
namespace {

constexpr std::array<char, 8> kMagic = {'k', '3', 's', 'u', 'm', 's', '0', '1'};
constexpr size_t kSourceBytes = 128;
constexpr uint64_t kLeastBlock = 4096;
constexpr uint64_t kMostBlocks = uint64_t{1} << 28;
constexpr uint64_t kLargestFile = uint64_t{4} << 30;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t file_bytes = 0;
  uint64_t block_bytes = 0;
  std::array<char, kSourceBytes> source{};
};
static_assert(sizeof(Header) == 8 + 8 + 8 + kSourceBytes);
static_assert(std::endian::native == std::endian::little);

}  // namespace

BlockSums::BlockSums(uint64_t file_bytes, std::string source, uint64_t block_bytes)
    : file_bytes_(file_bytes),
      block_bytes_(block_bytes),
      source_(std::move(source)),
      sums_(file_bytes / block_bytes + (file_bytes % block_bytes == 0 ? 0 : 1), 0) {
  if (source_.size() >= kSourceBytes) source_.resize(kSourceBytes - 1);
}

uint64_t BlockSums::PlaceOnDisk(size_t block) { return sizeof(Header) + block * sizeof(uint64_t); }

uint64_t BlockSums::BytesOf(size_t block) const {
  return std::min(block_bytes_, file_bytes_ - OffsetOf(block));
}

bool BlockSums::complete() const { return std::ranges::find(sums_, uint64_t{0}) == sums_.end(); }

bool BlockSums::HasBytes(uint64_t begin, uint64_t end) const {
  for (uint64_t block = begin / block_bytes_; block * block_bytes_ < end; ++block) {
    if (block >= blocks() || !Has(block)) return false;
  }
  return true;
}

uint64_t BlockSums::BytesPresent() const {
  uint64_t bytes = 0;
  for (size_t block = 0; block < blocks(); ++block) {
    if (Has(block)) bytes += BytesOf(block);
  }
  return bytes;
}

std::optional<BlockSums> BlockSums::Load(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) {
    return std::nullopt;
  }
  const std::string text = ReadWholeFile(path, kLargestFile);
  Header header;
  if (text.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, text.data(), sizeof(header));
  const uint64_t block = header.block_bytes;
  if (header.magic != kMagic || header.source.back() != '\0' || block < kLeastBlock ||
      !std::has_single_bit(block) || header.file_bytes / block >= kMostBlocks) {
    return std::nullopt;
  }
  BlockSums sums(header.file_bytes, header.source.data(), block);
  if (text.size() != PlaceOnDisk(sums.blocks())) return std::nullopt;
  if (!sums.sums_.empty()) {
    std::memcpy(sums.sums_.data(), text.data() + sizeof(header), sums.blocks() * sizeof(uint64_t));
  }
  return sums;
}

void BlockSums::Save(const std::filesystem::path& path) const {
  Header header;
  header.file_bytes = file_bytes_;
  header.block_bytes = block_bytes_;
  std::copy(source_.begin(), source_.end(), header.source.begin());
  AtomicFile file(path);
  file.Append(std::as_bytes(std::span(&header, 1)));
  file.Append(std::as_bytes(std::span(sums_)));
  file.Commit();
}

}  // namespace kimi_k3
