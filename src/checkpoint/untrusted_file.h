// Opening files of a downloaded folder: only regular ones, and stubs are recognised.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace kimi_k3 {

struct OpenFile {
  UniqueFd fd;
  uint64_t bytes = 0;
};

// Opens a regular file (or a link to one) for reading and never waits: a folder, a pipe, a device,
// a dangling link and a missing file are refused with Error(kCheckpoint) naming the path and what
// it is; what the system refuses to open is Error(kIo).
OpenFile OpenRegularFile(const std::filesystem::path& path);

// True for the text that git puts in place of a large file that was never fetched.
bool IsLfsPointer(std::string_view beginning);

// The whole text of a small file. Refuses with Error(kCheckpoint) what OpenRegularFile refuses, a
// file above limit_bytes and a git-lfs pointer.
std::string ReadTextFile(const std::filesystem::path& path, uint64_t limit_bytes);

}  // namespace kimi_k3
