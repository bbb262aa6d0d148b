// What `bench` has measured: as a table for people, and as a picture.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kimi_k3 {

// The report of docs/performance.md ("bench") as lines of text. Throws Error(kUsage) naming what is
// missing where `report` is none.
std::string FormatBenchReport(const nlohmann::ordered_json& report);

// Tokens per second by memory budget beside what the drive allows, and seconds a position by length
// of the prompt, as a standalone SVG. Throws as FormatBenchReport.
std::string DrawBenchReport(const nlohmann::ordered_json& report);

}  // namespace kimi_k3
