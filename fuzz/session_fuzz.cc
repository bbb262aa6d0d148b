// Fuzzes session files: refused with an Error, or their header, note and tokens are read.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kFront("\x89K3S\r\n\x1a\n\x01\0\0\0\0\0\0\0", 16);

void Check(bool holds) {
  if (!holds) std::abort();
}

void AppendNumber(std::string& file, size_t number) {
  for (int shift = 0; shift < 32; shift += 8) file += static_cast<char>(number >> shift & 0xff);
}

// A block whose checksum is right, whatever it says.
void AppendBlock(std::string& file, std::string_view text) {
  std::string planes(text.size(), '\0');
  const size_t n = text.size() / 4;
  for (size_t i = 0; i < text.size(); ++i) planes[i < 4 * n ? i % 4 * n + i / 4 : i] = text[i];
  std::string packed(ZSTD_compressBound(planes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), planes.data(), planes.size(), 1));
  AppendNumber(file, text.size());
  AppendNumber(file, packed.size());
  file += packed;
}

// The first byte tells how the rest is meant: as a file, or as the contents of blocks, which line
// feeds part.
std::string FileOf(std::string_view data) {
  if (data.empty() || data.front() != 'B') return std::string(data);
  data.remove_prefix(1);
  std::string file(kFront);
  while (!data.empty()) {
    const size_t size = std::min(data.find('\n'), data.size());
    AppendBlock(file, data.substr(0, size));
    data.remove_prefix(std::min(size + 1, data.size()));
  }
  return file;
}

}  // namespace
}  // namespace kimi_k3

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kimi_k3;
  static const int fd = memfd_create("session", 0);
  static const std::filesystem::path path = "/proc/self/fd/" + std::to_string(fd);
  const std::string file = FileOf({reinterpret_cast<const char*>(data), size});
  Check(ftruncate(fd, 0) == 0);
  Check(pwrite(fd, file.data(), file.size(), 0) == static_cast<ssize_t>(file.size()));
  try {
    const SessionInfo info = ReadSessionInfo(path);
    Check(info.note.size() <= kMostSessionNoteBytes);
  } catch (const Error& error) {
    Check(error.kind() == ErrorKind::kCheckpoint || error.kind() == ErrorKind::kIo);
  }
  return 0;
}
