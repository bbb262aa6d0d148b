// The flags of sessions on disk: shared by run and chat.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "cli/flag_group.h"

namespace kimi_k3 {

// Adds --session and --session-every to the group; the targets must outlive the parse.
void AddSessionFlags(FlagGroup& group, std::optional<std::filesystem::path>& file, size_t& every);

}  // namespace kimi_k3
