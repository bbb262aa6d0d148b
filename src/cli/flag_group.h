// Flags of a command whose values are read strictly, with errors in words.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"

namespace kimi_k3 {

// A whole number from the text of a flag: decimal digits alone. Throws Error(kUsage) that names the
// flag and quotes the text; for a number outside [least, most] it tells the bound.
uint64_t ParseCount(const std::string& flag, const std::string& text, uint64_t least,
                    uint64_t most);

// A finite decimal number. Throws Error(kUsage) as ParseCount does.
float ParseNumber(const std::string& flag, const std::string& text);

// Adds flags to a command under one heading of its help. `names` are as CLI11 takes them
// ("-n,--predict"), `value` stands for the value in the help. While arguments are parsed a value
// is read at once into its target, which must outlive the parse; what it held before is the
// default. Every mistake is an Error(kUsage), also a flag given twice.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string heading);

  Flag Switch(const std::string& names, bool& target, const std::string& help);
  // Calls `read` with the text of the value.
  Flag Value(const std::string& names, const std::string& value, const std::string& help,
             std::function<void(const std::string&)> read);
  Flag Text(const std::string& names, const std::string& value, std::optional<std::string>& target,
            const std::string& help);
  // May be repeated; calls `read` with all values, in their order.
  Flag Values(const std::string& names, const std::string& value, const std::string& help,
              std::function<void(const std::vector<std::string>&)> read);
  // May be repeated.
  Flag Texts(const std::string& names, const std::string& value, std::vector<std::string>& target,
             const std::string& help);
  // target: size_t or uint64_t.
  Flag Count(const std::string& names, const std::string& value, uint64_t& target,
             const std::string& help, uint64_t least = 0,
             uint64_t most = std::numeric_limits<int64_t>::max());
  Flag Number(const std::string& names, const std::string& value, float& target,
              const std::string& help);

  // One of a few words, each with what it stands for.
  template <typename T>
  Flag Choice(const std::string& names, std::vector<std::pair<std::string, T>> words, T& target,
              const std::string& help) {
    std::vector<std::string> names_of_words;
    names_of_words.reserve(words.size());
    for (const auto& [word, value] : words) names_of_words.push_back(word);
    return Value(names, Joined(names_of_words, "|"), help,
                 [names, words = std::move(words), &target](const std::string& text) {
                   std::vector<std::string> known;
                   for (const auto& [word, value] : words) {
                     known.push_back(word);
                     if (word != text) continue;
                     target = value;
                     return;
                   }
                   RefuseChoice(names, text, known);
                 });
  }

 private:
  static std::string Joined(const std::vector<std::string>& words, const char* separator);
  [[noreturn]] static void RefuseChoice(const std::string& names, const std::string& text,
                                        const std::vector<std::string>& known);

  CLI::App* app_;
  std::string heading_;
};

}  // namespace kimi_k3
