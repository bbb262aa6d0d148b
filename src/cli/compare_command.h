// The compare command: what an approximation costs in quality and gains in speed, measured.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

struct CompareOptions {
  // Also holds the first setting to compare, where it has any approximation.
  EngineOptions engine;
  std::vector<std::string> others;  // flags of further settings
  std::optional<std::string> text_file;
  size_t tokens = 1024;  // of the text, at the most
  size_t decode = 16;    // tokens generated to measure speed
  std::filesystem::path scratch = ".";
  bool json = false;
  bool quiet = false;
};

// Runs the text through the exact model and through each setting, and writes the table (or JSON) to
// `out`; told to stop, it writes what it has. Throws Error: kUsage where there is nothing to
// compare, and what opening and running throw.
void RunCompare(const CompareOptions& options, std::ostream& out);

// Adds `compare` to the program; chosen, it runs while arguments are parsed.
void AddCompareCommand(CLI::App& app);

}  // namespace kimi_k3
