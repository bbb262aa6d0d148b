// Names of shard files: which are allowed, which are missing.
#include "checkpoint/shard_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "checkpoint/problem_list.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kExtension = ".safetensors";

bool TakeDigits(std::string_view& text, size_t& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return true;
}

bool TakeText(std::string_view& text, std::string_view wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(wanted.size());
  return true;
}

}  // namespace

std::optional<ShardNumber> ParseShardNumber(std::string_view file_name) {
  ShardNumber shard;
  const bool fits = TakeText(file_name, "model-") && TakeDigits(file_name, shard.number) &&
                    TakeText(file_name, "-of-") && TakeDigits(file_name, shard.total) &&
                    file_name == kExtension;
  if (!fits) return std::nullopt;
  return shard;
}

bool IsPlainFileName(std::string_view file_name) {
  constexpr size_t kLongestName = 255;
  return !file_name.empty() && file_name.size() <= kLongestName && file_name.front() != '.' &&
         file_name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

std::vector<std::string> ListSafetensors(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  const std::filesystem::directory_iterator end;
  while (!error && entry != end) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(kExtension) && name.front() != '.') names.push_back(std::move(name));
    entry.increment(error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ShardLabel(std::string_view file_name) {
  const auto number = ParseShardNumber(file_name);
  if (!number) return Printable(file_name);
  return fmt::format("{} (number {} of {})", Printable(file_name), number->number, number->total);
}

}  // namespace kimi_k3
