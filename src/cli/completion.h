// Shell completion and the manual page, written from the table of commands and flags.
#pragma once

#include <string>
#include <string_view>

#include "cli/command_line.h"
#include "cli/option_table.h"

namespace kimi_k3 {

// The completion script of a shell: "bash", "zsh" or "fish". Throws Error(kUsage) for another.
std::string CompletionScript(const OptionTable& table, std::string_view shell);

// The manual page, section 1, as troff.
std::string ManualPage(const OptionTable& table);

// Adds the commands `completion SHELL` and `man`, which write to standard output and which the help
// does not show. `app` must have all its other commands by the time that it parses.
void AddCompletionCommands(CLI::App& app);

}  // namespace kimi_k3
