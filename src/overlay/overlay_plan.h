// Which matrices of a checkpoint an overlay is to replace, file by file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace kimi_k3 {

// A matrix that may be replaced.
struct OverlayCandidate {
  Role role = Role::kHead;
  size_t layer = 0;
  std::string name;     // in the checkpoint
  TensorLocation base;  // there
};

// One file of an overlay: a layer's matrices, or the head.
struct OverlayUnit {
  std::string file_name;
  std::vector<OverlayCandidate> matrices;
};

// The matrices that the form can store: bf16 for lossless, else columns in multiples of 32. Without
// patterns all of them, but the routers for lossless alone: a small error there sends a token to
// other experts. Patterns are those of fnmatch(3) and mean names in the checkpoint; `only` takes
// what fits one of them, `except` leaves that out. Throws Error(kUsage) for a pattern that fits no
// matrix and where nothing is left.
std::vector<OverlayUnit> PlanOverlay(const Checkpoint& checkpoint, Dtype form,
                                     const std::vector<std::string>& only,
                                     const std::vector<std::string>& except);

// About what the units will take; for lossless a bit more than usual.
uint64_t ExpectedOverlayBytes(const std::vector<OverlayUnit>& units, Dtype form);

// Whether a file of this name may be one of an overlay's own.
bool IsOverlayFileName(std::string_view name);

}  // namespace kimi_k3
