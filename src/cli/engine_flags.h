// The flags that say how a model is opened: shared by every command that runs one.
#pragma once

#include <cstdint>
#include <string>

#include "cli/flag_group.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// The bytes of a size such as 8G; throws Error(kUsage) that names the flag.
uint64_t ReadSizeFlag(const std::string& flag, const std::string& text);

// Adds the flags that make the answers others than the model's, for less memory or time; `engine`
// must outlive the parse.
void AddApproximationFlags(FlagGroup& group, EngineOptions& engine);

// Adds the model's flags, memory, reading, threads and the like to `app`; `engine` must outlive the
// parse.
void AddEngineFlags(CLI::App& app, EngineOptions& engine);

}  // namespace kimi_k3
