// Flags that several commands have alike.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/flag_group.h"
#include "kimi_k3/chat.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// --effort; the target must outlive the parse.
void AddEffortFlag(FlagGroup& group, std::optional<ThinkingEffort>& effort);

// --draft; guesses: how many tokens are guessed and checked in one pass. It must outlive the parse.
void AddDraftFlag(FlagGroup& group, size_t& guesses);

// --stop; the target must outlive the parse.
void AddStopFlag(FlagGroup& group, std::vector<std::string>& stop);

// --state-dir; the target must outlive the parse.
void AddStateDirFlag(FlagGroup& group, EngineOptions& engine);

// A flag whose value is the name of a file; the target must outlive the parse.
void AddPathFlag(FlagGroup& group, const std::string& names, const std::string& value,
                 std::optional<std::filesystem::path>& target, const std::string& help);

}  // namespace kimi_k3
