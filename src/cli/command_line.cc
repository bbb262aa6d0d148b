// Commands and flags of the library that parses the command line.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "base/error.h"
#include "cli/usage_error.h"

namespace kimi_k3 {

Flag Flag::Required() {
  option_->required();
  return *this;
}

Flag Flag::Default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

CLI::App& AddCommand(CLI::App& app, const std::string& name, const std::string& help) {
  return *app.add_subcommand(name, help);
}

void OnCommand(CLI::App& command, std::function<void()> run) { command.callback(std::move(run)); }

bool IsGiven(const CLI::App& command, const std::string& flag) {
  return command.get_option(flag)->count() > 0;
}

void ReadFlags(const std::string& flag, const std::string& text,
               const std::function<void(CLI::App&)>& add) {
  CLI::App app;
  app.set_help_flag();
  add(app);
  try {
    app.parse(text);
  } catch (const CLI::ParseError& error) {
    Fail(ErrorKind::kUsage, "{} \"{}\": {}", flag, text, DescribeUsageError(app, error));
  } catch (const Error& error) {
    Fail(error.kind(), "{} \"{}\": {}", flag, text, error.what());
  }
}

}  // namespace kimi_k3
