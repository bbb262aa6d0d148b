// From a memory plan to the weight stream that keeps to it.
#include "residency/stream_factory.h"

#include "residency/memory_limits.h"

namespace kimi_k3 {

std::unique_ptr<PlannedStream> MakeWeightStream(const Checkpoint& checkpoint,
                                                const MemoryPlan& plan, IoOptions options) {
  if (checkpoint.tensor_bytes() > ReadMemoryLimit(0).available_bytes) options.drop_behind = true;
  return MakePlannedStream(checkpoint, plan.stream, options);
}

}  // namespace kimi_k3
