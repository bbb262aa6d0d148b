// The run command: one prompt, one answer, streamed.
#pragma once

#include "cli/exit_code.h"
#include "cli/run_options.h"

namespace kimi_k3 {

// Opens the model, runs the prompt, prints the answer. Returns kExitDone or kExitInterrupted;
// throws Error for everything else.
ExitCode RunCommand(const RunOptions& options);

}  // namespace kimi_k3
