// Files that a program was killed over while it wrote them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kimi_k3 {

// The name that an AtomicFile was to get of which `file` is the unfinished beginning, where it was
// last written to so long ago that nobody is at it any more; nothing for every other file. For
// folders that several programs share. Thread-safe.
std::optional<std::string> AbandonedTarget(const std::filesystem::directory_entry& file);

}  // namespace kimi_k3
