// The beginning of a shard: finds its header and hands the text to the parser.
#include "checkpoint/shard_header.h"

#include <array>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "checkpoint/location_table.h"

namespace kimi_k3 {

uint64_t LoadShardHeader(const std::filesystem::path& path, const OpenFile& file,
                         SafetensorsHeaderParser& parser) {
  const std::string name = path.string();
  if (file.bytes >= LocationTable::kOffsetLimit) {
    Fail(ErrorKind::kCheckpoint, "{}: is larger than the {} bytes supported", name,
         LocationTable::kOffsetLimit);
  }
  uint64_t length = 0;
  if (file.bytes < kLengthFieldBytes) {
    Fail(ErrorKind::kCheckpoint,
         "{}: is {} bytes long, too short for a safetensors file; fetch this file again", name,
         file.bytes);
  }
  std::array<std::byte, kLengthFieldBytes> field;
  ReadExactly(file.fd, path, 0, field);
  std::memcpy(&length, field.data(), sizeof(length));
  const std::string_view text(reinterpret_cast<const char*>(field.data()), field.size());
  if (text == "version ") {
    Fail(ErrorKind::kCheckpoint,
         "{}: is a git-lfs pointer: the real file was never downloaded (run git lfs pull, or fetch "
         "this file again)",
         name);
  }
  if (length > kHeaderBytesLimit) {
    Fail(ErrorKind::kCheckpoint,
         "{}: declares a header of {} bytes, more than the {} supported; this is not a safetensors "
         "file, or it is damaged",
         name, length, kHeaderBytesLimit);
  }
  if (length > file.bytes - kLengthFieldBytes) {
    Fail(ErrorKind::kCheckpoint,
         "{}: is {} bytes long, but its header alone ends at {}; the file is cut off: fetch it "
         "again",
         name, file.bytes, length + kLengthFieldBytes);
  }
  ReadExactly(file.fd, path, kLengthFieldBytes, std::as_writable_bytes(parser.Buffer(length)));
  return kLengthFieldBytes + length;
}

void VisitShardTensors(const std::filesystem::path& path, SafetensorsHeaderParser& parser,
                       FunctionRef<void(const HeaderTensor&)> visit) {
  const OpenFile file = OpenRegularFile(path);
  const uint64_t data = LoadShardHeader(path, file, parser);
  ProblemList problems;
  parser.Parse(file.bytes - data, path.string(), problems, [&](const HeaderTensor& tensor) {
    HeaderTensor placed = tensor;
    placed.begin += data;
    placed.end += data;
    visit(placed);
  });
  problems.ThrowIfAny();
}

std::optional<FileHole> FirstUnmeantHole(const std::filesystem::path& path,
                                         SafetensorsHeaderParser& parser) {
  const OpenFile file = OpenRegularFile(path);
  const auto hole = FirstHole(file);
  if (!hole) return std::nullopt;
  const uint64_t data = LoadShardHeader(path, file, parser);
  ProblemList untold;
  parser.Parse(file.bytes - data, path.string(), untold, [](const HeaderTensor&) {});
  return parser.made_of_holes() ? std::nullopt : hole;
}

}  // namespace kimi_k3
