// The file of a session: a header, and sections of bytes in compressed, checksummed blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/aligned_buffer.h"
#include "base/file.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kimi_k3 {

inline constexpr uint32_t kSessionVersion = 1;

// The first block, as JSON.
struct SessionHeader {
  std::string model;
  std::string part;
  std::string kv_cache;        // KvCacheName
  std::string state_type;      // StateTypeName
  std::string approximations;  // flags (Engine::approximations); empty: none
  std::string fingerprint;
  uint64_t context = 0;
  uint64_t tokens = 0;
  uint64_t note_bytes = 0;
};

// Writes sections one after another; the file appears with Commit. Throws Error(kIo) as AtomicFile
// does. Holds three blocks of 1 MiB and the compressor's tables.
class SessionWriter {
 public:
  SessionWriter(const std::filesystem::path& path, const SessionHeader& header);
  ~SessionWriter();
  SessionWriter(const SessionWriter&) = delete;
  SessionWriter& operator=(const SessionWriter&) = delete;

  // A section, read from where it lies.
  void Append(std::span<const std::byte> section);
  void Commit();
  uint64_t bytes() const { return bytes_; }  // of the file so far

 private:
  void AppendBlock(std::span<const std::byte> block);

  std::filesystem::path path_;
  AtomicFile file_;
  uint64_t bytes_ = 0;
  ZSTD_CCtx_s* context_;
  AlignedBuffer<std::byte> planes_;
  AlignedBuffer<std::byte> packed_;
};

// Reads sections in the order in which they were written. Nothing in the file is believed before it
// is checked: every block carries a checksum of its contents, and has exactly the size that the
// section demands. Throws Error: kIo for what cannot be read, is damaged or ends too early;
// kCheckpoint for files of another kind or version.
class SessionReader {
 public:
  explicit SessionReader(const std::filesystem::path& path);
  ~SessionReader();
  SessionReader(const SessionReader&) = delete;
  SessionReader& operator=(const SessionReader&) = delete;

  const SessionHeader& header() const { return header_; }
  void Read(std::span<std::byte> section);
  // Nothing may follow the last section.
  void ExpectEnd() const;

 private:
  void ReadMagic();
  void ReadHeader();
  // The sizes at the front of the next block.
  struct BlockSizes {
    uint32_t raw = 0;
    uint32_t stored = 0;
  };
  BlockSizes ReadBlockSizes();
  void ReadBlock(BlockSizes sizes, std::span<std::byte> block);
  [[noreturn]] void FailDamaged(const std::string& what) const;

  std::filesystem::path path_;
  UniqueFd fd_;
  uint64_t file_bytes_ = 0;
  uint64_t at_ = 0;
  ZSTD_DCtx_s* context_;
  AlignedBuffer<std::byte> planes_;
  AlignedBuffer<std::byte> packed_;
  SessionHeader header_;
};

}  // namespace kimi_k3
