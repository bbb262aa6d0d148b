// The help command: what --help prints, for those who type a word.
#pragma once

#include "cli/command_line.h"

namespace kimi_k3 {

// Adds `help [COMMAND]`; chosen, it prints while arguments are parsed. Throws Error(kUsage) for a
// command that there is not.
void AddHelpCommand(CLI::App& app);

}  // namespace kimi_k3
