// The batch command: a file of requests, answered together.
#pragma once

#include "cli/command_line.h"
#include "cli/exit_code.h"

namespace kimi_k3 {

// Adds `batch` to the program; chosen, it runs while arguments are parsed and sets `code`: done
// where every request was answered, else run failed.
void AddBatchCommand(CLI::App& app, ExitCode& code);

}  // namespace kimi_k3
