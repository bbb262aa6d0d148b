// The files that an interrupted verification found good.
#include "fetch/verify_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <string_view>
#include <system_error>

#include "checkpoint/fetched_part.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProgressName = "verify.progress";

// "size mtime": a file that is still as it was when it was found good.
std::string StampOf(const fs::path& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{} {}.{:09}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

fs::path PathIn(const fs::path& folder) { return folder / kOwnFolder / kProgressName; }

std::string LineOf(const KnownFile& file) {
  return fmt::format("{} {} {}", StampOf(file.path()), file.hash ? file.hash->hex : "-", file.name);
}

}  // namespace

VerifyMemory::VerifyMemory(const fs::path& folder, bool go_on) : path_(PathIn(folder)) {
  if (!go_on) {
    Forget();
    return;
  }
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) good_.insert(line);
}

bool VerifyMemory::Exists(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(PathIn(folder), ignored);
}

bool VerifyMemory::Knows(const KnownFile& file) const { return good_.contains(LineOf(file)); }

void VerifyMemory::Remember(const KnownFile& file) const {
  std::error_code ignored;
  fs::create_directories(path_.parent_path(), ignored);
  std::ofstream(path_, std::ios::app) << LineOf(file) << '\n';
}

void VerifyMemory::Forget() const {
  std::error_code ignored;
  if (!fs::remove(path_, ignored)) return;
  const fs::path own = path_.parent_path();
  if (fs::is_directory(fs::symlink_status(own, ignored))) fs::remove(own, ignored);  // if empty
}

}  // namespace kimi_k3
