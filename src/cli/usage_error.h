// What is wrong with a command line, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"

namespace kimi_k3 {

// Of `known`, the word that `word` was most likely meant to be; empty where none is near.
std::string ClosestWord(std::string_view word, const std::vector<std::string>& known);

// The command of the program that `word` was most likely meant to be; empty where none is near.
std::string ClosestCommand(const CLI::App& app, std::string_view word);

// One sentence about `error`, which parsing into `app` threw: unknown flags and commands with what
// was probably meant, stray words, flags of the program before a command, missing values.
std::string DescribeUsageError(const CLI::App& app, const CLI::ParseError& error);

// Throws a CLI::ParseError where flags of the program stand before a command, which would not know
// them.
void CheckPlaceOfFlags(const CLI::App& app);

}  // namespace kimi_k3
