// Flags of a command whose values are read strictly, with errors in words.
#include "cli/flag_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace kimi_k3 {
namespace {

bool AllDigits(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

uint64_t ParseCount(const std::string& flag, const std::string& text, uint64_t least,
                    uint64_t most) {
  const bool negative = text.size() > 1 && text.front() == '-' && AllDigits(text.substr(1));
  if (!negative && !AllDigits(text)) {
    Fail(ErrorKind::kUsage, "{}: \"{}\" is not a whole number", flag, text);
  }
  uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (negative || (status == std::errc() && number < least)) {
    Fail(ErrorKind::kUsage, "{}: {} is below {}, the least it can be", flag, text, least);
  }
  if (status != std::errc() || number > most) {
    Fail(ErrorKind::kUsage, "{}: {} is above {}, the most it can be", flag, text, most);
  }
  return number;
}

float ParseNumber(const std::string& flag, const std::string& text) {
  float number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    Fail(ErrorKind::kUsage, "{}: \"{}\" is not a number, or is one out of all bounds", flag, text);
  }
  return number;
}

FlagGroup::FlagGroup(CLI::App& app, std::string heading)
    : app_(&app), heading_(std::move(heading)) {}

Flag FlagGroup::Switch(const std::string& names, bool& target, const std::string& help) {
  return Flag(*app_->add_flag(names, target, help)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
                   ->group(heading_));
}

Flag FlagGroup::Value(const std::string& names, const std::string& value, const std::string& help,
                      std::function<void(const std::string&)> read) {
  const CLI::callback_t take = [names, read = std::move(read)](const CLI::results_t& results) {
    if (results.size() > 1) Fail(ErrorKind::kUsage, "{}: given more than once", names);
    read(results.front());
    return true;
  };
  return Flag(*app_->add_option(names, take, help)
                   ->type_name(value)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                   ->group(heading_));
}

Flag FlagGroup::Text(const std::string& names, const std::string& value,
                     std::optional<std::string>& target, const std::string& help) {
  return Value(names, value, help, [&target](const std::string& text) { target = text; });
}

Flag FlagGroup::Values(const std::string& names, const std::string& value, const std::string& help,
                       std::function<void(const std::vector<std::string>&)> read) {
  const CLI::callback_t take = [read = std::move(read)](const CLI::results_t& results) {
    read(results);
    return true;
  };
  return Flag(*app_->add_option(names, take, help)
                   ->type_name(value)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                   ->group(heading_));
}

Flag FlagGroup::Texts(const std::string& names, const std::string& value,
                      std::vector<std::string>& target, const std::string& help) {
  return Values(names, value, help,
                [&target](const std::vector<std::string>& texts) { target = texts; });
}

Flag FlagGroup::Count(const std::string& names, const std::string& value, uint64_t& target,
                      const std::string& help, uint64_t least, uint64_t most) {
  Flag flag = Value(names, value, help, [names, &target, least, most](const std::string& text) {
    target = ParseCount(names, text, least, most);
  });
  // A default below `least` stands for what no number says.
  return target < least ? flag : flag.Default(fmt::to_string(target));
}

Flag FlagGroup::Number(const std::string& names, const std::string& value, float& target,
                       const std::string& help) {
  return Value(names, value, help,
               [names, &target](const std::string& text) { target = ParseNumber(names, text); })
      .Default(fmt::to_string(target));
}

std::string FlagGroup::Joined(const std::vector<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

void FlagGroup::RefuseChoice(const std::string& names, const std::string& text,
                             const std::vector<std::string>& known) {
  Fail(ErrorKind::kUsage, "{}: \"{}\" is not one of {}", names, text, Joined(known, ", "));
}

}  // namespace kimi_k3
