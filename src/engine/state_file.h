// A file without a name that holds what memory has no room for, gone when it is closed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"

namespace kimi_k3 {

// Offsets, lengths and addresses of reads and writes are whole blocks (kBlockBytes). Several
// threads may read and write at a time.
class StateFile {
 public:
  // Takes room for `bytes` in the folder at once, none where there is less. whose: for messages,
  // such as "the states of 40 texts". Throws Error: kIo where the file cannot be made or the drive
  // has not so much room, kUsage where the folder lies in memory.
  StateFile(const std::filesystem::path& folder, uint64_t bytes, const std::string& whose);

  // Throw Error(kIo).
  void Read(uint64_t offset, std::span<std::byte> out) const;
  void Write(uint64_t offset, std::span<const std::byte> bytes);

  bool direct() const { return direct_; }  // past the page cache
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_written() const { return bytes_written_; }

  // Bytes that are free for a file in the folder; nothing where the system does not tell. Throws as
  // the constructor does where the folder could hold none.
  static std::optional<uint64_t> RoomIn(const std::filesystem::path& folder);

  // Whether files of the folder take memory and no drive.
  static bool LiesInMemory(const std::filesystem::path& folder);

 private:
  void TakeRoom(uint64_t bytes, const std::string& whose) const;
  bool GoDirect() const;

  const std::filesystem::path folder_;
  const UniqueFd fd_;
  bool direct_ = false;
  mutable std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> bytes_written_{0};
};

}  // namespace kimi_k3
