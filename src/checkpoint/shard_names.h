// Names of shard files: which are allowed, which are missing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kimi_k3 {

// "model-00003-of-000096.safetensors" is number 3 of 96.
struct ShardNumber {
  size_t number = 0;
  size_t total = 0;
};
std::optional<ShardNumber> ParseShardNumber(std::string_view file_name);

// Whether an index may name this file: a plain name that cannot lead out of the folder and is not
// a side file beginning with a dot.
bool IsPlainFileName(std::string_view file_name);

// Names of what looks like weights in a folder (*.safetensors, not beginning with a dot), sorted.
// A folder that cannot be listed gives none.
std::vector<std::string> ListSafetensors(const std::filesystem::path& folder);

// "name (number 3)": how a message lists a shard.
std::string ShardLabel(std::string_view file_name);

}  // namespace kimi_k3
