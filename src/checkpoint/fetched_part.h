// What kimi_k3 pull has noted beside a model's files: which blocks of them are there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/block_sums.h"

namespace kimi_k3 {

// The program's own folder inside a model's folder.
inline constexpr std::string_view kOwnFolder = ".kimi_k3";
inline constexpr std::string_view kManifestName = "manifest.json";

// The name as one path component: "%" becomes "%25" and "/" becomes "%2F".
std::string FlatName(std::string_view name);

// Where the sums of a file's blocks are kept: .kimi_k3/NAME.sums, with %2F for each slash.
std::filesystem::path SumsPath(const std::filesystem::path& folder, std::string_view name);

// The blocks of a file of which only a part was fetched; the rest of it are holes, which read as
// zeros. Nothing for a file that is whole, or of which nothing is noted. Throws Error(kIo).
std::optional<BlockSums> FetchedPart(const std::filesystem::path& file, uint64_t file_bytes);

// The part of the model that was fetched into a folder, as --shard has it; empty where it was
// fetched whole, or nothing that can be read tells.
std::string FetchedPartName(const std::filesystem::path& folder);

}  // namespace kimi_k3
