// The plain weight stream: shards mapped read-only, nothing planned, nothing read ahead.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "residency/pass_schedule.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// Tiles and experts are views into maps of the shards; the system reads pages as they are touched
// and evicts them as it likes. The reference that every other stream is tested against.
// `checkpoint` must outlive the stream. Throws Error(kIo) where a shard cannot be mapped. A shard
// that is cut while in use makes the call that used it throw Error(kIo).
std::unique_ptr<WeightStream> MakeMappedStream(
    const Checkpoint& checkpoint, uint64_t tile_bytes = PassSchedule::kDefaultTileBytes);

}  // namespace kimi_k3
