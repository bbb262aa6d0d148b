// The verify command: is the checkpoint whole, and what can be done where it is not.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/exit_code.h"

namespace kimi_k3 {

struct VerifyCommandOptions {
  std::vector<std::filesystem::path> folders;
  std::optional<std::string> overlay;  // verified in place of the checkpoint
  std::optional<std::string> hash_list;
  bool quick = false;
  bool write_hashes = false;
  bool repair = false;
  bool go_on = false;
  bool json = false;
  bool quiet = false;
};

// Writes a line for every file that is bad, and what was found in all. The result is kExitDone
// where everything is good (also after a repair), kExitCheckpoint where something is not and
// kExitIo where a file could not be read. Throws Error as VerifyCheckpoint and Pull do.
ExitCode RunVerify(const VerifyCommandOptions& options);

// Adds `verify` to the program; chosen, it runs while arguments are parsed and leaves its exit code
// in `code`, which must outlive the parse.
void AddVerifyCommand(CLI::App& app, ExitCode& code);

}  // namespace kimi_k3
