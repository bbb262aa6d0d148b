// Makes an overlay of a checkpoint: file by file, so that what is done survives whatever happens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {

struct OverlayProgress {
  uint64_t bytes_done = 0;  // of the checkpoint's matrices; what earlier runs did counts as done
  uint64_t bytes_total = 0;
  size_t files_done = 0;
  size_t files_total = 0;
};

struct OverlayOptions {
  std::filesystem::path output;  // folder; made where it is not there
  Dtype form = Dtype::kQ8;       // kQ8, kQ4 or kCodedBf16
  // PlanOverlay's patterns.
  std::vector<std::string> only;
  std::vector<std::string> except;
  size_t threads = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const OverlayProgress&)> progress;  // every few megabytes
};

// What became of the matrices of one role.
struct OverlayRoleReport {
  Role role = Role::kHead;
  size_t matrices = 0;
  size_t left = 0;          // that would have gained too little and are not in the overlay
  uint64_t base_bytes = 0;  // of those that are
  uint64_t bytes = 0;
  double error = 0;  // OverlayMatrix::error, root of the mean square
};

struct OverlayReport {
  std::vector<OverlayRoleReport> roles;  // in the order of Role
  std::string fingerprint;
  size_t files = 0;
  size_t files_before = 0;  // of these, that earlier runs have written
  // Sums over the roles.
  size_t matrices = 0;
  size_t left = 0;
  uint64_t base_bytes = 0;
  uint64_t bytes = 0;
};

// Writes the overlay, or what is missing of it: files that an earlier run with the same options has
// finished stay. Each file appears whole, synced, and is then entered in the record; the bytes of
// all depend on checkpoint and options alone. Takes some ten megabytes of memory; a lossless
// overlay reads each matrix twice. Throws Error(kUsage) for patterns as PlanOverlay does, and for a
// folder that holds something else, an overlay of another checkpoint or one made with other
// options; kIo where the disk has too little room or fails, or another program is at work there;
// kCheckpoint for weights that are no numbers; kInterrupted once *stop is set.
OverlayReport WriteOverlay(const Checkpoint& checkpoint, const OverlayOptions& options);

}  // namespace kimi_k3
