// Reads at depth through io_uring.
#pragma once

#include <functional>
#include <memory>

#include "residency/reader.h"
#include "residency/shard_files.h"

namespace kimi_k3 {

// A reader that keeps up to `depth` reads in flight with one thread, or null where the system
// refuses io_uring, as many containers do; *refusal then says why in words. `files` must outlive
// it.
std::unique_ptr<Reader> MakeUringReader(const ShardFiles& files, size_t depth,
                                        std::string* refusal);

}  // namespace kimi_k3
