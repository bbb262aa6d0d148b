// The chat command: a conversation on the terminal, or through a pipe.
#pragma once

#include "cli/chat_options.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"

namespace kimi_k3 {

// Opens the model and talks until the input ends. Returns kExitDone, or kExitInterrupted where
// SIGTERM or SIGHUP ended it; throws Error for everything else.
ExitCode RunChat(const ChatOptions& options);

// Adds `chat` to the program; chosen, it runs while arguments are parsed and sets `code`, which
// must outlive the parse.
void AddChatCommand(CLI::App& app, ExitCode& code);

}  // namespace kimi_k3
