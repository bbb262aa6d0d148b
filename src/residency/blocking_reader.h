// Readers that fetch in the submitting thread: pread, and populating a map. A pool of threads with
// one each reads in parallel.
#pragma once

#include <deque>
#include <memory>

#include "residency/guarded_map.h"
#include "residency/reader.h"
#include "residency/shard_files.h"

namespace kimi_k3 {

// Depth one: Submit reads, Collect reports. `files` must outlive it.
std::unique_ptr<Reader> MakePreadReader(const ShardFiles& files);

// The destination of a request is its place in the map of its shard; Submit makes those pages
// present (MADV_POPULATE_READ, or by touching them where the kernel has no such advice). `maps`, by
// shard, must outlive it.
std::unique_ptr<Reader> MakePopulateReader(const std::deque<GuardedMap>& maps);

}  // namespace kimi_k3
