// A NumPy file of f32 rows, written row by row.
#include "cli/npy_file.h"

#include <bit>
#include <string>

#include "base/error.h"

namespace kimi_k3 {

static_assert(std::endian::native == std::endian::little);

NpyFile::NpyFile(const std::filesystem::path& path, size_t rows, size_t columns) : file_(path) {
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  // Magic, version and length take 10 bytes; all of it is a multiple of 64, a newline at the end.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string start = "\x93NUMPY";
  start += '\x01';
  start += '\0';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  file_.Append(std::string_view(start));
  file_.Append(std::string_view(header));
}

void NpyFile::AppendRow(std::span<const float> values) { file_.Append(std::as_bytes(values)); }

void NpyFile::Commit() { file_.Commit(); }

}  // namespace kimi_k3
