// Reads model.safetensors.index.json in pieces: which tensor lies in which shard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/function_ref.h"

namespace kimi_k3 {

// Twice what half a million tensors with long names need.
inline constexpr uint64_t kIndexBytesLimit = uint64_t{256} << 20;

// Calls visit(tensor name, file name) for every pair of `weight_map`, in file order; the views are
// valid during the visit alone. The published index is 60 MB long, so it is read through a window
// of a few hundred kilobytes and nothing of it is kept. Throws Error(kCheckpoint) for a file that
// is no regular file, is a git-lfs pointer, exceeds kIndexBytesLimit, is not valid JSON, has no
// weight_map or two, an empty one, or one whose values are not strings.
void ReadTensorIndex(const std::filesystem::path& path,
                     FunctionRef<void(std::string_view, std::string_view)> visit);

}  // namespace kimi_k3
