// Shell completion and the manual page, written from the table of commands and flags.
#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"

namespace kimi_k3 {
namespace {

std::string Replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(what)) {
      result += with;
      at += what.size();
    } else {
      result += text[at++];
    }
  }
  return result;
}

bool WantsFolder(const FlagEntry& flag) { return flag.value == "DIR"; }
bool WantsFile(const FlagEntry& flag) { return flag.value.starts_with("FILE"); }

std::vector<std::string> CommandNames(const OptionTable& table) {
  std::vector<std::string> names;
  for (const CommandEntry& command : table.commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> AllNames(const CommandEntry& command) {
  std::vector<std::string> names;
  for (const FlagEntry& flag : command.flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

// ---- bash

std::string BashValue(const FlagEntry& flag) {
  if (WantsFolder(flag)) return "COMPREPLY=($(compgen -d -- \"$current\"))";
  if (WantsFile(flag)) return "COMPREPLY=($(compgen -f -- \"$current\"))";
  return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$current\"))",
                     fmt::join(WordsOfValue(flag.value), " "));
}

std::string BashScript(const OptionTable& table) {
  std::string text =
      "# bash completion of kimi_k3\n"
      "_kimi_k3() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command=\n";
  text += fmt::format(
      "  case \" {} \" in *\" ${{COMP_WORDS[1]}} \"*) command=${{COMP_WORDS[1]}};; esac\n",
      fmt::join(CommandNames(table), " "));
  text +=
      "  [ \"$COMP_CWORD\" -eq 1 ] && command=\n  COMPREPLY=()\n  case \"$command:$previous\" in\n";
  const auto values = [&text](const CommandEntry& command) {
    for (const FlagEntry& flag : command.flags) {
      if (flag.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names) patterns.push_back(command.name + ":" + name);
      text += fmt::format("    {}) {}; return;;\n", fmt::join(patterns, "|"), BashValue(flag));
    }
  };
  values(table.program);
  for (const CommandEntry& command : table.commands) values(command);
  text += "  esac\n  case \"$command\" in\n";
  const auto words = [&text](const CommandEntry& command, const std::string& more) {
    const bool folder = !command.arguments.empty() && WantsFolder(command.arguments.front());
    text += fmt::format("    '{}') COMPREPLY=($(compgen -W '{}{}' -- \"$current\"){});;\n",
                        command.name, more, fmt::join(AllNames(command), " "),
                        folder ? " $(compgen -d -- \"$current\")" : "");
  };
  words(table.program, fmt::format("{} ", fmt::join(CommandNames(table), " ")));
  for (const CommandEntry& command : table.commands) words(command, "");
  return text + "  esac\n}\ncomplete -o filenames -F _kimi_k3 kimi_k3\n";
}

// ---- zsh

std::string ZshQuoted(const std::string& text) {
  std::string quoted;
  for (const char c : Replaced(text, "'", "'\\''")) {
    if (c == '[' || c == ']' || c == ':') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

std::string ZshValue(const FlagEntry& flag) {
  if (flag.value.empty()) return {};
  std::string action = " ";
  if (WantsFolder(flag)) action = "_files -/";
  if (WantsFile(flag)) action = "_files";
  if (const auto words = WordsOfValue(flag.value); !words.empty()) {
    action = fmt::format("({})", fmt::join(words, " "));
  }
  return fmt::format(":{}:{}", ZshQuoted(Replaced(flag.value, "|", " ")), action);
}

std::string ZshArguments(const CommandEntry& command) {
  std::string text;
  for (const FlagEntry& flag : command.flags) {
    for (const std::string& name : flag.names) {
      text += fmt::format(" \\\n        '{}{}[{}]{}'", flag.repeated ? "*" : "", name,
                          ZshQuoted(flag.help), ZshValue(flag));
    }
  }
  for (const FlagEntry& argument : command.arguments) {
    text += fmt::format(" \\\n        '1{}'", ZshValue(argument));
  }
  return text;
}

std::string ZshScript(const OptionTable& table) {
  std::string text =
      "#compdef kimi_k3\n"
      "_kimi_k3() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CommandEntry& command : table.commands) {
    text += fmt::format("    '{}:{}'\n", command.name, ZshQuoted(command.help));
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  case ${words[2]} in\n";
  for (const CommandEntry& command : table.commands) {
    text +=
        fmt::format("    {})\n      shift words; (( CURRENT-- ))\n      _arguments{}\n      ;;\n",
                    command.name, ZshArguments(command));
  }
  text += fmt::format("    *)\n      _arguments{}\n      ;;\n  esac\n}}\n_kimi_k3 \"$@\"\n",
                      ZshArguments(table.program));
  return text;
}

// ---- fish

std::string FishQuoted(const std::string& text) {
  return "'" + Replaced(Replaced(Replaced(text, "\\", "\\\\"), "'", "\\'"), "\n", " ") + "'";
}

std::string FishFlags(const CommandEntry& command, const std::string& condition) {
  std::string text;
  for (const FlagEntry& flag : command.flags) {
    std::string names;
    for (const std::string& name : flag.names) {
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    std::string value;
    if (!flag.value.empty()) {
      value = WantsFolder(flag) ? " -x -a '(__fish_complete_directories)'"
              : WantsFile(flag)
                  ? " -r -F"
                  : fmt::format(" -x -a {}", FishQuoted(fmt::format(
                                                 "{}", fmt::join(WordsOfValue(flag.value), " "))));
    }
    text += fmt::format("complete -c kimi_k3 -n {}{}{} -d {}\n", FishQuoted(condition), names,
                        value, FishQuoted(flag.help));
  }
  for (const FlagEntry& argument : command.arguments) {
    if (!WantsFolder(argument)) continue;
    text += fmt::format("complete -c kimi_k3 -n {} -a '(__fish_complete_directories)'\n",
                        FishQuoted(condition));
  }
  return text;
}

std::string FishScript(const OptionTable& table) {
  const std::string all = fmt::format("{}", fmt::join(CommandNames(table), " "));
  std::string text = "# fish completion of kimi_k3\ncomplete -c kimi_k3 -f\n";
  for (const CommandEntry& command : table.commands) {
    text += fmt::format("complete -c kimi_k3 -n '__fish_is_first_token' -a {} -d {}\n",
                        command.name, FishQuoted(command.help));
  }
  text += FishFlags(table.program, "not __fish_seen_subcommand_from " + all);
  for (const CommandEntry& command : table.commands) {
    text += FishFlags(command, "__fish_seen_subcommand_from " + command.name);
  }
  return text;
}

// ---- manual page

std::string Troff(const std::string& text) {
  std::string safe = Replaced(Replaced(text, "\\", "\\e"), "-", "\\-");
  std::string lines;
  bool at_start = true;
  for (const char c : safe) {
    if (at_start && (c == '.' || c == '\'')) lines += "\\&";
    lines += c;
    at_start = c == '\n';
  }
  return lines;
}

std::string ManFlags(const CommandEntry& command) {
  std::string text;
  std::string group;
  for (const FlagEntry& argument : command.arguments) {
    if (!argument.names.empty()) continue;
    text += fmt::format(".TP\n.I {}\n{}\n", Troff(argument.value), Troff(argument.help));
  }
  for (const FlagEntry& flag : command.flags) {
    if (flag.group != group && command.name.empty()) {
      text += fmt::format(".SS {}\n", Troff(flag.group));
    }
    group = flag.group;
    std::string names;
    for (const std::string& name : flag.names) {
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", Troff(name));
    }
    if (!flag.value.empty()) names += fmt::format(" \\fI{}\\fR", Troff(flag.value));
    text += fmt::format(".TP\n{}\n{}\n", names, Troff(flag.help));
  }
  return text;
}

}  // namespace

std::string CompletionScript(const OptionTable& table, std::string_view shell) {
  if (shell == "bash") return BashScript(table);
  if (shell == "zsh") return ZshScript(table);
  if (shell == "fish") return FishScript(table);
  Fail(ErrorKind::kUsage, "completion: \"{}\" is none of bash, zsh, fish", shell);
}

std::string ManualPage(const OptionTable& table) {
  std::string text =
      ".TH KIMI_K3 1\n.SH NAME\nkimi_k3 \\- runs Kimi K3 on an ordinary computer\n.SH SYNOPSIS\n"
      ".B kimi_k3\n\\fB\\-m\\fR \\fIDIR\\fR \\fB\\-p\\fR \\fITEXT\\fR [\\fIflags\\fR]\n";
  for (const CommandEntry& command : table.commands) {
    std::string arguments;
    for (const FlagEntry& argument : command.arguments) {
      arguments += fmt::format(" \\fI{}\\fR", Troff(argument.value));
    }
    text += fmt::format(".br\n.B kimi_k3 {}\n{}[\\fIflags\\fR]\n", command.name,
                        arguments.empty() ? "" : arguments.substr(1) + " ");
  }
  text +=
      ".SH DESCRIPTION\nWithout a command the program prints the model's answer to a prompt, "
      "reading the weights from disk\nwhile it computes, in as much memory as it is allowed.\n";
  text += ".SH OPTIONS\n" + ManFlags(table.program);
  text += ".SH COMMANDS\n";
  for (const CommandEntry& command : table.commands) {
    text += fmt::format(".SS kimi_k3 {}\n{}.\n{}", command.name, Troff(command.help),
                        ManFlags(command));
  }
  text += fmt::format(".SH EXIT STATUS\n{}\n", Troff(table.footer));
  return text;
}

void AddCompletionCommands(CLI::App& app) {
  CLI::App* completion = app.add_subcommand("completion", "Write the completion script of a shell");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  completion->callback(
      [&app, shell] { std::cout << CompletionScript(MakeOptionTable(app), *shell); });
  CLI::App* manual = app.add_subcommand("man", "Write the manual page");
  manual->callback([&app] { std::cout << ManualPage(MakeOptionTable(app)); });
}

}  // namespace kimi_k3
