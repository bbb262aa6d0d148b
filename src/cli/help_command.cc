// The help command: what --help prints, for those who type a word.
#include "cli/help_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/usage_error.h"

namespace kimi_k3 {

void AddHelpCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "The flags of the program or of a command");
  const auto name = std::make_shared<std::string>();
  command->add_option("command", *name, "Which command")->type_name("");
  command->callback([&app, name] {
    if (name->empty()) {
      // App::help would be that of the command that was chosen, which is this one.
      std::cout << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
      return;
    }
    const auto wanted =
        app.get_subcommands([&name](const CLI::App* known) { return known->get_name() == *name; });
    if (wanted.empty()) {
      const std::string closest = ClosestCommand(app, *name);
      Fail(ErrorKind::kUsage, "there is no command {}{}", *name,
           closest.empty() ? "" : fmt::format("; did you mean {}?", closest));
    }
    std::cout << wanted.front()->help(app.get_name());
  });
}

}  // namespace kimi_k3
