// The command line as its sources see it without the library that parses it: commands, and what was
// given.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace kimi_k3 {

// A flag or argument that was added to a command.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}
  // The command is refused without it.
  Flag Required();
  // What the help shows as its default.
  Flag Default(const std::string& text);

 private:
  CLI::Option* option_;
};

// Adds the command `name` to the program; it lives as long as `app`.
CLI::App& AddCommand(CLI::App& app, const std::string& name, const std::string& help);

// Calls `run` once the command line has been read and was right, where it has this command.
void OnCommand(CLI::App& command, std::function<void()> run);

// Whether the command line of `command` has the flag; it must be one of the command's.
bool IsGiven(const CLI::App& command, const std::string& flag);

// Reads `text` as the flags that `add` adds. Throws Error(kUsage) that names `flag`, whose value
// the text is.
void ReadFlags(const std::string& flag, const std::string& text,
               const std::function<void(CLI::App&)>& add);

}  // namespace kimi_k3
