// Is an overlay whole, and does it belong to a checkpoint.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <vector>

#include "fetch/verify.h"

namespace kimi_k3 {

struct OverlayCheckOptions {
  std::vector<std::filesystem::path> base_folders;  // of the checkpoint; not read but for headers
  std::filesystem::path overlay;
  bool quick = false;  // sizes, headers and the tie to the checkpoint alone
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const VerifyProgress&)> progress;
};

// Binds the overlay as Checkpoint::UseOverlay does and compares every file with the hash that its
// record has. Throws Error as Checkpoint::Open does for the checkpoint itself, kCheckpoint for a
// folder without a record or with a damaged one, kInterrupted once *stop is set.
VerifyReport CheckOverlay(const OverlayCheckOptions& options);

}  // namespace kimi_k3
