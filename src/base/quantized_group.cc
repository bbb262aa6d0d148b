// Groups of 32 weights as small whole numbers with a common scale.
#include "base/quantized_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bf16.h"

namespace kimi_k3 {
namespace {

constexpr size_t kColumns = kQuantizedGroupColumns;
// The largest bf16 numbers under which every weight is finite: the numbers reach -128 and -8.
constexpr float kLargestQ8Scale = 0x1.fep120F;
constexpr float kLargestQ4Scale = 0x1.fep124F;

// The whole numbers of a group under one scale, and what is lost.
struct Assignment {
  uint16_t scale = 0;
  std::array<int8_t, kColumns> numbers{};
  double squared_error = std::numeric_limits<double>::infinity();
};

uint16_t UsableScale(double scale, double largest) {
  return FloatToBf16(static_cast<float>(std::clamp(scale, -largest, largest)));
}

// The nearest whole number, ties to even, of one that is small against 2^51: in a sum with this the
// fraction has no room.
double RoundSmall(double number) {
  constexpr double kNoFraction = 0x1.8p52;
  return (number + kNoFraction) - kNoFraction;
}

Assignment Assign(GroupWeights weights, uint16_t scale, int least, int most) {
  Assignment result;
  result.scale = scale;
  result.squared_error = 0.0;
  const double step = Bf16ToFloat(scale);
  for (size_t c = 0; c < kColumns; ++c) {
    const double ratio = step == 0.0 ? 0.0 : double{weights[c]} / step;
    const double number = RoundSmall(std::clamp<double>(ratio, least, most));
    result.numbers[c] = static_cast<int8_t>(number);
    const double error = double{weights[c]} - number * step;
    result.squared_error += error * error;
  }
  return result;
}

// The scale that suits the numbers best.
double LeastSquaresScale(GroupWeights weights, const Assignment& assignment) {
  double products = 0.0;
  double squares = 0.0;
  for (size_t c = 0; c < kColumns; ++c) {
    const double number = assignment.numbers[c];
    products += double{weights[c]} * number;
    squares += number * number;
  }
  return squares == 0.0 ? 0.0 : products / squares;
}

// The weight of the largest magnitude, with its sign.
float Extreme(GroupWeights weights) {
  float extreme = 0.0F;
  for (const float weight : weights) {
    if (std::abs(weight) > std::abs(extreme)) extreme = weight;
  }
  return extreme;
}

void Keep(Assignment& best, const Assignment& candidate) {
  if (candidate.squared_error < best.squared_error) best = candidate;
}

float ScaleOf(const std::byte* group) {
  uint16_t bits = 0;
  std::memcpy(&bits, group, sizeof bits);
  return Bf16ToFloat(bits);
}

}  // namespace

void EncodeQ8Group(GroupWeights weights, std::span<std::byte, kQ8GroupBytes> out) {
  const uint16_t nearest = UsableScale(std::abs(double{Extreme(weights)}) / 127.0, kLargestQ8Scale);
  Assignment best = Assign(weights, nearest, -127, 127);
  if (nearest > 0) Keep(best, Assign(weights, static_cast<uint16_t>(nearest - 1), -127, 127));
  if (Bf16ToFloat(nearest) < kLargestQ8Scale) {
    Keep(best, Assign(weights, static_cast<uint16_t>(nearest + 1), -127, 127));
  }
  std::memcpy(out.data(), &best.scale, kScaleBytes);
  std::memcpy(out.data() + kScaleBytes, best.numbers.data(), kColumns);
}

void EncodeQ4Group(GroupWeights weights, std::span<std::byte, kQ4GroupBytes> out) {
  // What the extreme weight is divided by to begin with: around the ends of the range, -8 and 7.
  constexpr double kDivisors[] = {-9.5, -8.9, -8.4, -8.0, -7.6, -7.2, -6.7, 6.4, 6.8, 7.2, 7.7};
  const double extreme = Extreme(weights);
  Assignment best = Assign(weights, 0, -8, 7);
  for (const double divisor : kDivisors) {
    if (extreme == 0.0) break;
    const Assignment first =
        Assign(weights, UsableScale(extreme / divisor, kLargestQ4Scale), -8, 7);
    Keep(best, first);
    Keep(best,
         Assign(weights, UsableScale(LeastSquaresScale(weights, first), kLargestQ4Scale), -8, 7));
  }
  std::memcpy(out.data(), &best.scale, kScaleBytes);
  for (size_t i = 0; i < kColumns / 2; ++i) {
    const int low = best.numbers[i] + kQ4Bias;
    const int high = best.numbers[i + kColumns / 2] + kQ4Bias;
    out[kScaleBytes + i] = static_cast<std::byte>(low | (high << 4));
  }
}

void DecodeQ8Group(std::span<const std::byte, kQ8GroupBytes> group,
                   std::span<float, kQuantizedGroupColumns> out) {
  const float scale = ScaleOf(group.data());
  for (size_t c = 0; c < kColumns; ++c) {
    out[c] = static_cast<float>(static_cast<int8_t>(group[kScaleBytes + c])) * scale;
  }
}

void DecodeQ4Group(std::span<const std::byte, kQ4GroupBytes> group,
                   std::span<float, kQuantizedGroupColumns> out) {
  const float scale = ScaleOf(group.data());
  for (size_t i = 0; i < kColumns / 2; ++i) {
    const int pair = static_cast<int>(group[kScaleBytes + i]);
    out[i] = static_cast<float>((pair & 15) - kQ4Bias) * scale;
    out[i + kColumns / 2] = static_cast<float>((pair >> 4) - kQ4Bias) * scale;
  }
}

bool HasBadGroupScale(std::span<const std::byte> groups, size_t group_bytes) {
  const float largest = group_bytes == kQ8GroupBytes ? kLargestQ8Scale : kLargestQ4Scale;
  for (size_t at = 0; at + group_bytes <= groups.size(); at += group_bytes) {
    if (!(std::abs(ScaleOf(groups.data() + at)) <= largest)) return true;
  }
  return false;
}

}  // namespace kimi_k3
