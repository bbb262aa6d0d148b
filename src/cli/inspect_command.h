// The inspect command: what a checkpoint holds, tensor by tensor where that is asked for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace kimi_k3 {

struct InspectOptions {
  std::vector<std::filesystem::path> folders;
  std::optional<std::string> overlay;  // that the report is with
  std::vector<std::string> patterns;   // of tensor names; none: the report
  bool values = false;
  bool json = false;
  std::optional<std::string> svg_file;
  bool quiet = false;
};

// Writes the report, or the tensors whose names match, to standard output. Reads weights only for
// `values`, a few megabytes at a time. Throws Error as TensorListing does, kUsage where no name
// matches, kIo where output cannot be written and kInterrupted where the user stopped it.
void RunInspect(const InspectOptions& options);

// Adds `inspect` to the program; chosen, it runs while arguments are parsed.
void AddInspectCommand(CLI::App& app);

}  // namespace kimi_k3
