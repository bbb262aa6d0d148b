// The beginning of a shard: finds its header and hands the text to the parser.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/function_ref.h"
#include "checkpoint/file_hole.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {

// Fills the parser's buffer with the header of an open file and gives the offset of its data.
// Throws Error(kCheckpoint) naming the file where it is too short or too large, is a git-lfs
// pointer or declares a header that does not lie inside it, Error(kIo) where reading fails.
uint64_t LoadShardHeader(const std::filesystem::path& path, const OpenFile& file,
                         SafetensorsHeaderParser& parser);

// Visits the tensors of one shard in the order of its header, offsets counted from the beginning of
// the file. Throws as LoadShardHeader, and Error(kCheckpoint) with every problem of the header.
void VisitShardTensors(const std::filesystem::path& path, SafetensorsHeaderParser& parser,
                       FunctionRef<void(const HeaderTensor&)> visit);

// The first hole of a shard that is not made of holes on purpose, as kimi_k3 synth --sparse makes
// them. Throws as LoadShardHeader.
std::optional<FileHole> FirstUnmeantHole(const std::filesystem::path& path,
                                         SafetensorsHeaderParser& parser);

}  // namespace kimi_k3
