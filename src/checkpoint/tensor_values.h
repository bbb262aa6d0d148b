// What the numbers of a tensor look like: extremes, mean, deviation, zeros, NaN and infinities.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/parallel.h"

namespace kimi_k3 {

// How the bytes of a tensor stand for numbers.
enum class NumberForm : uint8_t {
  kF32,
  kBf16,
  kE2m1,  // MXFP4: two values a byte, the low half first, each times the scale of its group of 32
  kE8m0,  // MXFP4 scales: 2^(byte - 127), 255 is NaN
  kByte   // whole numbers from 0 to 255
};

// Where the numbers lie. scale_offset: of the scales of a kE2m1 tensor, one byte for 16 bytes.
struct StoredNumbers {
  std::filesystem::path path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  NumberForm form = NumberForm::kByte;
  std::filesystem::path scale_path;
  uint64_t scale_offset = 0;
};

// NaN and infinities are counted and stay out of the rest; without a finite number minimum, maximum
// and mean are NaN.
struct ValueSummary {
  uint64_t count = 0;
  uint64_t zeros = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  uint64_t finite() const { return count - nans - infinities; }
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double deviation = 0;  // of the population
};

// Reads the numbers a few megabytes at a time. The result depends on them alone, not on `parallel`.
// Throws Error(kIo) where reading fails.
ValueSummary SummarizeValues(const StoredNumbers& numbers, Parallel& parallel);

}  // namespace kimi_k3
