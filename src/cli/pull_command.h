// The pull command: downloads a checkpoint, or the part of one, and goes on where it was stopped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command_line.h"

namespace kimi_k3 {

struct PullCommandOptions {
  std::string repository;             // OWNER/NAME or OWNER/NAME@REVISION
  std::optional<std::string> output;  // the last part of the repository's name where not given
  std::string part;
  bool dry_run = false;
  uint64_t connections = 8;
  uint64_t block_bytes = uint64_t{1} << 20;  // what an interruption costs a connection at the most
  uint64_t retries = 30;
  uint64_t stall_seconds = 30;
  bool quiet = false;
};

// Pulls, with a live line on a terminal and a line about the result. Throws Error as Pull does.
void RunPull(const PullCommandOptions& options);

// Adds `pull` to the program; chosen, it runs while arguments are parsed.
void AddPullCommand(CLI::App& app);

}  // namespace kimi_k3
