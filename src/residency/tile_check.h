// What can be seen to be wrong with weights when they have been read.
#pragma once

#include "checkpoint/checkpoint.h"
#include "residency/pass_schedule.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// Looks at rows in the forms that overlays have: a coded row must hold as many escapes as it says,
// the scale of a group must be a number. Other weights are taken as they are. Throws
// Error(kCheckpoint) that names file and tensor.
void CheckTile(const Checkpoint& checkpoint, const PassStep& step, const Tile& tile);

}  // namespace kimi_k3
