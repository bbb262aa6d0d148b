// What clients call a model that nobody has named.
#pragma once

#include <filesystem>
#include <string>

namespace kimi_k3 {

// The last name of the folder's path, made absolute.
std::string ModelNameOf(const std::filesystem::path& folder);

}  // namespace kimi_k3
