// The run command: one prompt, one answer, streamed.
#pragma once

#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/run_options.h"

namespace kimi_k3 {

// Opens the model, runs the prompt, prints the answer. Returns kExitDone or kExitInterrupted;
// throws Error for everything else.
ExitCode RunCommand(const RunOptions& options);

// Adds `run`, another name for what the program does without a command; chosen, it runs while
// arguments are parsed and sets `code`, which must outlive the parse.
void AddRunCommand(CLI::App& app, ExitCode& code);

}  // namespace kimi_k3
