// What is wrong with a command line, in words.
#include "cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

namespace kimi_k3 {
namespace {

// Insertions, deletions and replacements that turn one word into the other (Levenshtein).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + static_cast<size_t>(a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// Empty where none was given.
std::string FirstGivenFlag(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) return option->get_name();
  }
  return {};
}

std::string Suggestion(const std::string& closest) {
  return closest.empty() ? std::string() : fmt::format("; did you mean {}?", closest);
}

std::string DescribeStray(const CLI::App& app, const CLI::App& command, const std::string& word) {
  const std::string of_command =
      &command == &app ? std::string() : fmt::format(" of the {} command", command.get_name());
  if (word.size() > 1 && word.front() == '-') {
    const std::string flag = word.substr(0, word.find('='));
    return fmt::format("there is no flag {}{}{}", flag, of_command,
                       Suggestion(ClosestWord(flag, FlagNames(command))));
  }
  if (&command != &app) {
    return fmt::format(
        "\"{}\" is more than the {} command takes; a text or name of several words needs quotes",
        word, command.get_name());
  }
  const std::string closest = ClosestWord(word, CommandNames(app));
  if (!closest.empty()) return fmt::format("there is no command {}{}", word, Suggestion(closest));
  return fmt::format("\"{}\" is neither a command nor a flag; a text of several words needs quotes",
                     word);
}

}  // namespace

std::string ClosestWord(std::string_view word, const std::vector<std::string>& known) {
  // Two letters or a third of them may be wrong, or the word may be the beginning of the right one.
  size_t best = std::max<size_t>(3, word.size() / 3 + 1);
  std::string closest;
  for (const std::string& candidate : known) {
    const bool begins = word.size() > 3 && candidate.starts_with(word);
    const size_t distance = begins ? 1 : EditDistance(word, candidate);
    if (distance >= best || distance >= candidate.size() - 1) continue;
    best = distance;
    closest = candidate;
  }
  return closest;
}

std::string ClosestCommand(const CLI::App& app, std::string_view word) {
  return ClosestWord(word, CommandNames(app));
}

std::string DescribeUsageError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::vector<std::string> strays = app.remaining(true);
  const std::string misplaced = &command == &app ? std::string() : FirstGivenFlag(app);
  std::string text = error.what();
  if (!strays.empty()) {
    text = DescribeStray(app, command, strays.front());
  } else if (!misplaced.empty()) {
    text = fmt::format("{} stands before the command: write kimi_k3 {} {} ...", misplaced,
                       command.get_name(), misplaced);
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    text = fmt::format("{} needs a value", text.substr(0, text.find(':')));
  }
  return fmt::format("{} (kimi_k3 {}--help lists the flags)", text,
                     &command == &app ? std::string() : command.get_name() + " ");
}

void CheckPlaceOfFlags(const CLI::App& app) {
  if (app.get_subcommands().empty()) return;
  const std::string flag = FirstGivenFlag(app);
  if (!flag.empty()) throw CLI::ExcludesError(flag, app.get_subcommands().front()->get_name());
}

}  // namespace kimi_k3
