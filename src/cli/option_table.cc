// The program's commands and flags as a table, read off the parser that understands them.
#include "cli/option_table.h"

#include <CLI/CLI.hpp>

namespace kimi_k3 {
namespace {

CommandEntry EntryOf(const CLI::App& app, bool is_program) {
  CommandEntry entry;
  if (!is_program) entry.name = app.get_name();
  entry.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    FlagEntry flag;
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) flag.value = option->get_type_name();
    flag.help = option->get_description();
    flag.group = option->get_group();
    flag.repeated = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (option->get_positional()) entry.arguments.push_back(flag);
    if (!flag.names.empty()) entry.flags.push_back(std::move(flag));
  }
  return entry;
}

}  // namespace

OptionTable MakeOptionTable(const CLI::App& app) {
  OptionTable table;
  table.program = EntryOf(app, true);
  table.footer = app.get_footer();
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) table.commands.push_back(EntryOf(*command, false));
  }
  return table;
}

std::vector<std::string> WordsOfValue(const std::string& value) {
  if (value.find('|') == std::string::npos) return {};
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('|', begin), value.size());
    words.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace kimi_k3
