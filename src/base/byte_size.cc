// Sizes in bytes as people write them.
#include "base/byte_size.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace kimi_k3 {
namespace {

double UnitFactor(std::string_view unit, std::string_view whole) {
  std::string lower;
  for (const char c : unit) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgt";
  const size_t power = kPrefixes.find(lower[0]);
  const std::string rest = lower.substr(1);
  if (power != std::string_view::npos) {
    if (rest.empty() || rest == "b") return std::pow(1000.0, static_cast<double>(power + 1));
    if (rest == "ib") return std::pow(1024.0, static_cast<double>(power + 1));
  }
  Fail(ErrorKind::kUsage, "\"{}\" is not a size: write a number and a unit, such as 8G or 512MiB",
       whole);
}

}  // namespace

uint64_t ParseByteSize(std::string_view text) {
  double number = 0;
  const auto [end, status] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (status != std::errc() || !std::isfinite(number) || std::signbit(number)) {
    Fail(ErrorKind::kUsage, "\"{}\" is not a size: write a number and a unit, such as 8G or 512MiB",
         text);
  }
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const double bytes = number * UnitFactor(unit, text);
  if (bytes >= 9.2e18) Fail(ErrorKind::kUsage, "\"{}\" is more than any machine has", text);
  return static_cast<uint64_t>(bytes);
}

std::string FormatByteSize(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  constexpr std::array<const char*, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

}  // namespace kimi_k3
