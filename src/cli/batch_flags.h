// The flags that the answers of a batch depend on: kept with a job, so that a change can be named.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kimi_k3 {

// Values by flag, such as {"--temp", "1"}; flags that were not given may be missing.
using BatchFlags = std::map<std::string, std::string>;

// As an object on a line: {"flags": {...}}, with its line feed; and back: nothing where the line
// (not trusted) is no such object.
std::string BatchFlagsLine(const BatchFlags& flags);
std::optional<BatchFlags> ReadBatchFlags(std::string_view line);

// "--temp 1 then, 0.5 now; --seed 3 then, not given now"; empty where they are the same.
std::string ChangedBatchFlags(const BatchFlags& then, const BatchFlags& now);

}  // namespace kimi_k3
