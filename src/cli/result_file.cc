// Files that a run writes at its end: found out at its beginning whether they can be written.
#include "cli/result_file.h"

#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"

namespace kimi_k3 {

void CheckResultFile(std::string_view flag, const std::filesystem::path& path,
                     uint64_t size_bytes) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::directory) {
    Fail(ErrorKind::kIo, "{}: {} is a folder; name a file in it", flag, path.string());
  }
  // The finished file takes the place of what is there, which must not be a device.
  if (type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::regular) {
    Fail(ErrorKind::kIo, "{}: {} is no regular file", flag, path.string());
  }
  try {
    const AtomicFile probe(path);
  } catch (const Error& error) {
    Fail(error.kind(), "{}: {}", flag, error.what());
  }
  const auto folder = path.has_parent_path() ? path.parent_path() : ".";
  const auto space = std::filesystem::space(folder, ignored);
  if (!ignored && space.available < size_bytes) {
    Fail(ErrorKind::kIo, "{}: {} takes {}, but {} has only {} free", flag, path.string(),
         FormatByteSize(size_bytes), folder.string(), FormatByteSize(space.available));
  }
}

void KeepModelWhole(std::string_view flag, const std::filesystem::path& path,
                    const std::vector<std::filesystem::path>& model_folders) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const auto target = std::filesystem::canonical(path, ignored);
  for (const std::filesystem::path& folder : model_folders) {
    if (std::filesystem::canonical(folder, ignored) != target.parent_path()) continue;
    Fail(ErrorKind::kUsage, "{}: {} is in the model's folder and would be replaced; name another",
         flag, path.string());
  }
}

}  // namespace kimi_k3
