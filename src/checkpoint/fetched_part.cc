// What kimi_k3 pull has noted beside a model's files: which blocks of them are there.
#include "checkpoint/fetched_part.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestManifest = uint64_t{64} << 20;

}  // namespace

std::string FlatName(std::string_view name) {
  std::string flat;
  for (const char c : name) {
    if (c == '/') {
      flat += "%2F";
    } else if (c == '%') {
      flat += "%25";
    } else {
      flat += c;
    }
  }
  return flat;
}

fs::path SumsPath(const fs::path& folder, std::string_view name) {
  return folder / kOwnFolder / (FlatName(name) + ".sums");
}

std::optional<BlockSums> FetchedPart(const fs::path& file, uint64_t file_bytes) {
  auto sums = BlockSums::Load(SumsPath(file.parent_path(), file.filename().string()));
  if (!sums || sums->file_bytes() != file_bytes || sums->complete()) return std::nullopt;
  return sums;
}

std::string FetchedPartName(const fs::path& folder) {
  const fs::path path = folder / kOwnFolder / kManifestName;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  try {
    const auto root = ParseStrictJson(ReadTextFile(path, kLongestManifest), path.string());
    const auto part = root.find("part");
    return part != root.end() && part->is_string() ? part->get<std::string>() : std::string();
  } catch (const Error&) {  // whoever needs the manifest itself tells what is wrong with it
    return {};
  }
}

}  // namespace kimi_k3
