// How much memory this process may really use.
#include "residency/memory_limits.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kNoLimit = uint64_t{1} << 62;

std::optional<uint64_t> ReadNumber(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  if (!(file >> word)) return std::nullopt;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The number behind `key` in a file of "key number" lines; 0 where it is not there.
uint64_t ReadKey(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

// What one group leaves to be used, the process's own memory not yet added back.
uint64_t RoomOfGroup(const std::filesystem::path& group, bool v2) {
  const std::filesystem::path stat = group / "memory.stat";
  std::optional<uint64_t> limit, used;
  uint64_t reclaimable = 0;
  if (v2) {
    limit = ReadNumber(group / "memory.max");
    const auto high = ReadNumber(group / "memory.high");
    if (high) limit = std::min(limit.value_or(kNoLimit), *high);
    used = ReadNumber(group / "memory.current");
    reclaimable = ReadKey(stat, "inactive_file") + ReadKey(stat, "active_file") +
                  ReadKey(stat, "slab_reclaimable");
  } else {
    limit = ReadNumber(group / "memory.limit_in_bytes");
    used = ReadNumber(group / "memory.usage_in_bytes");
    reclaimable = ReadKey(stat, "total_inactive_file") + ReadKey(stat, "total_active_file");
  }
  if (!limit || *limit >= kNoLimit) return kNoLimit;
  const uint64_t bound = used.value_or(0) - std::min(used.value_or(0), reclaimable);
  return *limit - std::min(*limit, bound);
}

// What the system itself calls free, where there is no /proc to tell more.
uint64_t FreeMemory() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? uint64_t{info.freeram} * info.mem_unit : 0;
}

}  // namespace

MemoryLimit ReadMemoryLimit(uint64_t resident_bytes, const std::filesystem::path& root) {
  const uint64_t system = ReadKey(root / "proc/meminfo", "MemAvailable:") * 1024;
  MemoryLimit limit = {system == 0 ? kNoLimit : system, "MemAvailable"};
  if (system == 0 && root == "/") limit = {FreeMemory(), "free memory, as /proc is not there"};
  std::ifstream groups(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",memory,") == std::string::npos) continue;
    const std::filesystem::path below =
        std::filesystem::path(line.substr(second + 1)).relative_path();
    for (const char* mount : {v2 ? "sys/fs/cgroup" : "sys/fs/cgroup/memory",
                              v2 ? "sys/fs/cgroup/unified" : "sys/fs/cgroup/memory"}) {
      for (std::filesystem::path level = below;; level = level.parent_path()) {
        const uint64_t room = RoomOfGroup(root / mount / level, v2);
        if (room < limit.available_bytes) {
          limit = {room, ("/" / std::filesystem::path(mount) / level).string()};
        }
        if (level.empty()) break;
      }
    }
  }
  if (limit.available_bytes < kNoLimit) limit.available_bytes += resident_bytes;
  return limit;
}

uint64_t DefaultBudget(const MemoryLimit& limit) { return limit.available_bytes / 100 * 85; }

}  // namespace kimi_k3
