// From a memory plan to the weight stream that keeps to it.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "residency/memory_plan.h"
#include "residency/planned_stream.h"
#include "residency/stream_options.h"

namespace kimi_k3 {

// MakePlannedStream with the memory of the plan. Reads through the page cache are dropped behind
// where the model is larger than the memory that the system could cache it in; otherwise the cache
// is left to keep it.
std::unique_ptr<PlannedStream> MakeWeightStream(const Checkpoint& checkpoint,
                                                const MemoryPlan& plan, IoOptions options);

}  // namespace kimi_k3
