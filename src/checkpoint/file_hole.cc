// Holes of a file: ranges that were never written and read as zeros.
#include "checkpoint/file_hole.h"

#include <unistd.h>

namespace kimi_k3 {

std::optional<FileHole> FirstHole(const OpenFile& file) {
  const off_t begin = lseek(file.fd.get(), 0, SEEK_HOLE);
  if (begin < 0 || static_cast<uint64_t>(begin) >= file.bytes) return std::nullopt;
  const off_t end = lseek(file.fd.get(), begin, SEEK_DATA);  // fails where nothing follows
  return FileHole{static_cast<uint64_t>(begin), end < 0 ? file.bytes : static_cast<uint64_t>(end)};
}

}  // namespace kimi_k3
