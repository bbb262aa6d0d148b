// Which shards lie on which drive.
#include "residency/drive_map.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <system_error>

namespace kimi_k3 {
namespace {

// The whole disk of a partition; any other device as it is.
dev_t DiskOf(dev_t device) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path link = fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
  const fs::path place = fs::canonical(link, error);
  if (error || !fs::exists(place / "partition", error)) return device;
  std::ifstream numbers(place.parent_path() / "dev");
  unsigned disk_major = 0;
  unsigned disk_minor = 0;
  char colon = 0;
  if (!(numbers >> disk_major >> colon >> disk_minor)) return device;
  return makedev(disk_major, disk_minor);
}

}  // namespace

DriveMap::DriveMap(const std::vector<uint64_t>& devices) {
  std::map<uint64_t, size_t> drive_of_device;
  for (const uint64_t device : devices) {
    const auto [known, is_new] = drive_of_device.try_emplace(device, drive_of_device.size());
    drive_of_.push_back(known->second % kMostDrives);
  }
  drives_ = std::clamp<size_t>(drive_of_device.size(), 1, kMostDrives);
}

uint64_t DeviceOf(const std::filesystem::path& file) {
  struct stat info = {};
  return stat(file.c_str(), &info) == 0 ? DiskOf(info.st_dev) : 0;
}

DriveMap FindDrives(const Checkpoint& checkpoint, const DeviceFunction& device_of) {
  std::vector<uint64_t> devices;
  for (const Shard& shard : checkpoint.shards()) devices.push_back(device_of(shard.path));
  return DriveMap(devices);
}

}  // namespace kimi_k3
