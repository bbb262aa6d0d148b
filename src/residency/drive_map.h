// Which shards lie on which drive, so that reads can go to all drives at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace kimi_k3 {

// Drives are numbered from 0. Immutable.
class DriveMap {
 public:
  // More drives than this share a number.
  static constexpr size_t kMostDrives = 8;

  // One drive holds every shard.
  DriveMap() = default;
  // devices: by shard, any number that is the same for the shards of one drive.
  explicit DriveMap(const std::vector<uint64_t>& devices);

  size_t drives() const { return drives_; }  // >= 1
  size_t Of(uint32_t shard) const { return drive_of_.empty() ? 0 : drive_of_[shard]; }

 private:
  std::vector<size_t> drive_of_;  // by shard
  size_t drives_ = 1;
};

// A number for the drive that a file lies on, links followed: the device of its file system, for a
// partition the disk it is part of; 0 where the file is not there.
using DeviceFunction = std::function<uint64_t(const std::filesystem::path&)>;
uint64_t DeviceOf(const std::filesystem::path& file);

DriveMap FindDrives(const Checkpoint& checkpoint, const DeviceFunction& device_of = DeviceOf);

}  // namespace kimi_k3
