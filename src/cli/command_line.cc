// Commands and flags of the library that parses the command line.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/usage_error.h"

namespace kimi_k3 {
namespace {

// Words as a shell would have them: between quotation marks of either kind blanks are ordinary; a
// backslash between double ones takes the next character as it stands. Nothing where a mark is
// opened and not closed.
std::optional<std::vector<std::string>> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;  // a word
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank =
        quote == '\0' && std::string_view(" \t\r\n").find(c) != std::string_view::npos;
    if (!blank && !inside) words.emplace_back();
    inside = !blank;
    if (blank) continue;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '\\' && quote == '"' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0') return std::nullopt;
  return words;
}

}  // namespace

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
  std::optional<std::vector<std::string>> words = WordsOf(text);
  if (!words) {
    Fail(ErrorKind::kUsage, "{} \"{}\": a quotation mark is opened and not closed", flag, text);
  }
  std::ranges::reverse(*words);  // as the library takes them
  CLI::App app;
  app.set_help_flag();
  add(app);
  try {
    app.parse(std::move(*words));
  } catch (const CLI::ParseError& error) {
    Fail(ErrorKind::kUsage, "{} \"{}\": {}", flag, text, DescribeUsageError(app, error));
  } catch (const Error& error) {
    Fail(error.kind(), "{} \"{}\": {}", flag, text, error.what());
  }
}

}  // namespace kimi_k3
