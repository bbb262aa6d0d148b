// The bench command: how fast this machine runs this model, and what bounds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <vector>

#include "cli/command_line.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

struct BenchOptions {
  EngineOptions engine;
  std::vector<uint64_t> budgets;                   // empty: what the machine has to spare
  std::vector<size_t> prompts = {1, 16, 64, 256};  // lengths
  size_t tokens = 4;                               // decoded for each budget
  std::optional<std::filesystem::path> json_file;
  std::optional<std::filesystem::path> svg_file;
  std::optional<std::filesystem::path> from_file;  // a report written before, in place of measuring
  bool quiet = false;
};

// Measures (or reads the report `from_file`), writes the table to `out`, and the JSON and SVG files
// where they are wanted. What it is doing is said on `notes`. Throws Error: what opening, planning
// and running throw, kInterrupted when told to stop.
void RunBench(const BenchOptions& options, std::ostream& out, std::ostream& notes);

// Adds `bench` to the program; chosen, it runs while arguments are parsed.
void AddBenchCommand(CLI::App& app);

}  // namespace kimi_k3
