// The folders that a model's files lie in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace kimi_k3 {

inline constexpr std::string_view kConfigName = "config.json";
inline constexpr std::string_view kTokenizerName = "tiktoken.model";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
inline constexpr std::string_view kSingleName = "model.safetensors";
inline constexpr uint64_t kConfigBytesLimit = 4 * 1024 * 1024;

// Throws Error(kCheckpoint) that names the first of the folders that is not there or is no folder.
void CheckFolders(std::span<const std::filesystem::path> folders);

// Whether the folder has an entry of that name, be it a link that leads nowhere.
bool HasEntry(const std::filesystem::path& folder, std::string_view name);

// The first folder that has the file; a link that leads nowhere counts only where no folder has
// better. Without any the first folder, so that messages name that. REQUIRES: a folder.
const std::filesystem::path& FolderWith(std::span<const std::filesystem::path> folders,
                                        std::string_view name);

}  // namespace kimi_k3
