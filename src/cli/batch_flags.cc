// The flags that the answers of a batch depend on: kept with a job, so that a change can be named.
#include "cli/batch_flags.h"

#include <fmt/format.h>

#include "text/json_text.h"
#include "text/json_value.h"

namespace kimi_k3 {
namespace {

constexpr size_t kMostShownBytes = 80;
constexpr size_t kMostShownFlags = 20;

std::string ShownFlag(const BatchFlags& flags, const std::string& flag) {
  const auto found = flags.find(flag);
  return found == flags.end() ? "not given" : found->second.substr(0, kMostShownBytes);
}

}  // namespace

std::string BatchFlagsLine(const BatchFlags& flags) {
  std::string line = "{\"flags\":{";
  for (const auto& [flag, value] : flags) {
    if (!line.ends_with('{')) line += ',';
    text::AppendJsonString(flag, line);
    line += ':';
    text::AppendJsonString(value, line);
  }
  return line + "}}\n";
}

std::optional<BatchFlags> ReadBatchFlags(std::string_view line) {
  const text::JsonParseResult parsed = text::ParseJson(line);
  const text::JsonValue* object = parsed.value ? parsed.value->Find("flags") : nullptr;
  if (object == nullptr || !object->is_object()) return std::nullopt;
  BatchFlags flags;
  for (const auto& [flag, value] : object->members()) {
    if (!value.is_string()) return std::nullopt;
    flags[flag] = value.string();
  }
  return flags;
}

std::string ChangedBatchFlags(const BatchFlags& then, const BatchFlags& now) {
  BatchFlags all = then;
  all.insert(now.begin(), now.end());
  std::string changes;
  size_t changed = 0;
  for (const auto& [flag, value] : all) {
    const std::string before = ShownFlag(then, flag);
    const std::string after = ShownFlag(now, flag);
    if (before == after) continue;
    if (changed++ == kMostShownFlags) return changes + "; ...";
    changes += fmt::format("{}{} {} then, {} now", changes.empty() ? "" : "; ",
                           flag.substr(0, kMostShownBytes), before, after);
  }
  return changes;
}

}  // namespace kimi_k3
