// The doctor command: what this machine offers, and what suits it best.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace kimi_k3 {

struct DoctorOptions {
  std::vector<std::filesystem::path> folders;  // of a checkpoint; none: the machine alone
  std::string part;                            // as --shard has it; empty: all
  bool json = false;
  bool quiet = false;
};

// What io_uring says to a process here: "allowed", or why not.
std::string ProbeIoUring();

// The name of the file system that a path is on ("ext4"), or its number in hexadecimal.
std::string FileSystemName(const std::filesystem::path& path);

// Whether reads past the page cache work on a file, tried with one.
bool DirectReadsWork(const std::filesystem::path& file);

// Looks, measures for some seconds, opens the model with what it is about to advise, and writes
// what it found to standard output. Throws Error as opening and planning do.
void RunDoctor(const DoctorOptions& options);

// Adds `doctor` to the program; chosen, it runs while arguments are parsed.
void AddDoctorCommand(CLI::App& app);

}  // namespace kimi_k3
