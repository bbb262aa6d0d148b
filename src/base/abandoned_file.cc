// Files that a program was killed over while it wrote them.
#include "base/abandoned_file.h"

#include <chrono>
#include <system_error>

#include "base/file.h"

namespace kimi_k3 {
namespace {

// After which nobody is still writing a file.
constexpr std::chrono::hours kWritten{1};

}  // namespace

std::optional<std::string> AbandonedTarget(const std::filesystem::directory_entry& file) {
  std::optional<std::string> target = AtomicFile::TargetOf(file.path().filename().string());
  if (!target) return std::nullopt;
  std::error_code error;
  const auto written = file.last_write_time(error);
  if (error || written >= std::filesystem::file_time_type::clock::now() - kWritten) {
    return std::nullopt;
  }
  return target;
}

}  // namespace kimi_k3
