// The serve command: the model behind the OpenAI API, over HTTP.
#pragma once

#include "cli/command_line.h"
#include "cli/exit_code.h"

namespace kimi_k3 {

// Adds `serve` to the program; chosen, it runs while arguments are parsed and sets `code`, which
// must outlive the parse.
void AddServeCommand(CLI::App& app, ExitCode& code);

}  // namespace kimi_k3
