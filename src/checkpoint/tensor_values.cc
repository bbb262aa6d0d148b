// What the numbers of a tensor look like: extremes, mean, deviation, zeros, NaN and infinities.
#include "checkpoint/tensor_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "base/file.h"

namespace kimi_k3 {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;
constexpr size_t kSummedBytes = size_t{64} << 10;  // summed by one thread
constexpr size_t kBytesAScale = 16;
constexpr uint8_t kNanScale = 255;

// Running sums of one run of numbers; two runs are joined in the manner of Chan.
struct Sums {
  uint64_t count = 0;
  uint64_t zeros = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  uint64_t finite = 0;
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -std::numeric_limits<double>::infinity();
  double mean = 0;
  double squares = 0;  // of the distances from the mean

  void Join(const Sums& other) {
    count += other.count;
    zeros += other.zeros;
    nans += other.nans;
    infinities += other.infinities;
    minimum = std::min(minimum, other.minimum);
    maximum = std::max(maximum, other.maximum);
    if (other.finite == 0) return;
    const auto a = static_cast<double>(finite);
    const auto b = static_cast<double>(other.finite);
    const double apart = other.mean - mean;
    mean += apart * b / (a + b);
    squares += other.squares + apart * apart * a * b / (a + b);
    finite += other.finite;
  }
};

// Of `count` numbers, given one after another by value(i).
template <typename Value>
Sums SumUp(size_t count, const Value& value) {
  Sums sums;
  sums.count = count;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double v = value(i);
    if (std::isnan(v)) {
      ++sums.nans;
    } else if (std::isinf(v)) {
      ++sums.infinities;
    } else {
      ++sums.finite;
      sums.zeros += v == 0 ? 1 : 0;
      sums.minimum = std::min(sums.minimum, v);
      sums.maximum = std::max(sums.maximum, v);
      sum += v;
    }
  }
  if (sums.finite == 0) return sums;
  sums.mean = sum / static_cast<double>(sums.finite);
  for (size_t i = 0; i < count; ++i) {
    const double apart = value(i) - sums.mean;
    if (std::isfinite(apart)) sums.squares += apart * apart;
  }
  return sums;
}

double ScaleValue(uint8_t byte) {
  return byte == kNanScale ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, byte - 127);
}

double E2m1Value(uint8_t nibble) {
  constexpr std::array<double, 8> kMagnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (nibble & 8U) != 0 ? -kMagnitudes[nibble & 7U] : kMagnitudes[nibble & 7U];
}

Sums SumUpPiece(NumberForm form, std::span<const uint8_t> bytes, std::span<const uint8_t> scales) {
  switch (form) {
    case NumberForm::kF32:
      return SumUp(bytes.size() / sizeof(float), [&](size_t i) {
        float value = 0;
        std::memcpy(&value, &bytes[i * sizeof(value)], sizeof(value));
        return static_cast<double>(value);
      });
    case NumberForm::kBf16:
      return SumUp(bytes.size() / sizeof(uint16_t), [&](size_t i) {
        uint16_t value = 0;
        std::memcpy(&value, &bytes[i * sizeof(value)], sizeof(value));
        return static_cast<double>(Bf16ToFloat(value));
      });
    case NumberForm::kE2m1:
      return SumUp(bytes.size() * 2, [&](size_t i) {
        const uint8_t byte = bytes[i / 2];
        const auto nibble = static_cast<uint8_t>(i % 2 == 0 ? byte & 15U : byte >> 4U);
        return E2m1Value(nibble) * ScaleValue(scales[i / 2 / kBytesAScale]);
      });
    case NumberForm::kE8m0:
      return SumUp(bytes.size(), [&](size_t i) { return ScaleValue(bytes[i]); });
    case NumberForm::kByte:
      break;
  }
  return SumUp(bytes.size(), [&](size_t i) { return static_cast<double>(bytes[i]); });
}

}  // namespace

ValueSummary SummarizeValues(const StoredNumbers& numbers, Parallel& parallel) {
  static_assert(kSummedBytes % kBytesAScale == 0 && kChunkBytes % kSummedBytes == 0);
  const bool scaled = numbers.form == NumberForm::kE2m1;
  const UniqueFd file = OpenForReading(numbers.path);
  const UniqueFd scale_file = scaled ? OpenForReading(numbers.scale_path) : UniqueFd();
  std::vector<uint8_t> bytes, scales;
  std::vector<Sums> pieces;
  Sums all;
  for (uint64_t at = 0; at < numbers.bytes; at += kChunkBytes) {
    bytes.resize(std::min<uint64_t>(kChunkBytes, numbers.bytes - at));
    ReadExactly(file, numbers.path, numbers.offset + at, std::as_writable_bytes(std::span(bytes)));
    if (scaled) {
      scales.resize((bytes.size() + kBytesAScale - 1) / kBytesAScale);
      ReadExactly(scale_file, numbers.scale_path, numbers.scale_offset + at / kBytesAScale,
                  std::as_writable_bytes(std::span(scales)));
    }
    pieces.assign((bytes.size() + kSummedBytes - 1) / kSummedBytes, {});
    parallel.For(pieces.size(), 1, [&](size_t, size_t begin, size_t end) {
      for (size_t piece = begin; piece < end; ++piece) {
        const size_t first = piece * kSummedBytes;
        const size_t size = std::min(kSummedBytes, bytes.size() - first);
        pieces[piece] = SumUpPiece(numbers.form, std::span(bytes).subspan(first, size),
                                   std::span(scales).subspan(scaled ? first / kBytesAScale : 0));
      }
    });
    for (const Sums& piece : pieces) all.Join(piece);
  }
  ValueSummary summary{all.count,   all.zeros,   all.nans, all.infinities,
                       all.minimum, all.maximum, all.mean, 0};
  if (all.finite > 0) {
    summary.deviation = std::sqrt(all.squares / static_cast<double>(all.finite));
  } else {
    summary.minimum = summary.maximum = summary.mean = summary.deviation =
        std::numeric_limits<double>::quiet_NaN();
  }
  return summary;
}

}  // namespace kimi_k3
