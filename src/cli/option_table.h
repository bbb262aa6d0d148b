// The program's commands and flags as a table, read off the parser that understands them.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace kimi_k3 {

struct FlagEntry {
  std::vector<std::string> names;  // "-m", "--model"; empty for an argument without a flag
  std::string value;               // what stands for its value in the help; empty for a switch
  std::string help;
  std::string group;
  bool repeated = false;  // may be given several times
};

struct CommandEntry {
  std::string name;  // empty: the program itself
  std::string help;
  std::vector<FlagEntry> flags;
  std::vector<FlagEntry> arguments;
};

struct OptionTable {
  CommandEntry program;
  std::vector<CommandEntry> commands;  // those that the help shows
  std::string footer;
};

OptionTable MakeOptionTable(const CLI::App& app);

// The words of a value like "low|high|max"; empty for other values.
std::vector<std::string> WordsOfValue(const std::string& value);

}  // namespace kimi_k3
