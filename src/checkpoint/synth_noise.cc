// Random weights: any piece of any tensor, the same for a seed on every machine.
#include "checkpoint/synth_noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/bf16.h"

namespace kimi_k3 {
namespace {

constexpr size_t kQuantiles = 1 << 16;
constexpr uint64_t kWeyl = 0x9e3779b97f4a7c15;

// The finalizer of splitmix64: a bijection of 64 bits with good avalanche.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return Mix(hash);
}

// e^x for x >= 0 from multiplications and additions alone, which round alike everywhere.
double Exponential(double x) {
  constexpr int kHalvings = 8;
  const double small = x / (1 << kHalvings);
  double sum = 1;
  double term = 1;
  for (int n = 1; n <= 10; ++n) {
    term *= small / n;
    sum += term;
  }
  for (int i = 0; i < kHalvings; ++i) sum *= sum;
  return sum;
}

// dx/dp along the inverse of the normal distribution function.
double Slope(double x) {
  constexpr double kRootTwoPi = 2.50662827463100050242;
  return kRootTwoPi * Exponential(x * x / 2);
}

// Standard normal value at each of kQuantiles equally likely ranks, by integrating the slope (RK4).
std::vector<float> NormalQuantiles() {
  std::vector<float> table(kQuantiles);
  const double step = 1.0 / kQuantiles;
  double x = step / 2 * Slope(0);
  for (size_t i = kQuantiles / 2; i < kQuantiles; ++i) {
    table[i] = static_cast<float>(x);
    table[kQuantiles - 1 - i] = static_cast<float>(-x);
    const double k1 = Slope(x);
    const double k2 = Slope(x + step / 2 * k1);
    const double k3 = Slope(x + step / 2 * k2);
    const double k4 = Slope(x + step * k3);
    x += step / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    // The last step would integrate past rank 1, where the value is infinite.
    x = std::min(x, 5.0);
  }
  return table;
}

// The deviation, in units of the scale, that values quantised by their group's maximum have.
constexpr float kNibbleDeviation = 2.0F;

uint8_t NearestE2m1(float value) {
  constexpr std::array<float, 8> kMagnitudes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const float magnitude = std::fabs(value);
  size_t best = 0;
  for (size_t code = 1; code < kMagnitudes.size(); ++code) {
    if (std::fabs(kMagnitudes[code] - magnitude) < std::fabs(kMagnitudes[best] - magnitude)) {
      best = code;
    }
  }
  return static_cast<uint8_t>(best | (value < 0 ? 8 : 0));
}

// A byte of random bits chooses a nibble; two of them a packed byte.
std::vector<uint8_t> PackedPairs(const std::vector<float>& normal) {
  std::array<uint8_t, 256> nibble;
  for (size_t i = 0; i < nibble.size(); ++i) {
    nibble[i] = NearestE2m1(normal[i * 256 + 128] * kNibbleDeviation);
  }
  std::vector<uint8_t> pairs(kQuantiles);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = static_cast<uint8_t>(nibble[i & 0xff] | (nibble[i >> 8] << 4));
  }
  return pairs;
}

// Scales around the power of two nearest to deviation / kNibbleDeviation: most groups have it, a
// third have half of it, a few the double.
std::vector<uint8_t> ScaleChoices(float deviation) {
  constexpr float kRootTwo = 1.41421356F;
  int exponent = 127;
  for (float x = deviation / kNibbleDeviation; x < 1 / kRootTwo && exponent > 2; x *= 2) --exponent;
  for (float x = deviation / kNibbleDeviation; x >= kRootTwo && exponent < 252; x /= 2) ++exponent;
  std::vector<uint8_t> choices(256);
  for (size_t i = 0; i < choices.size(); ++i) {
    const int shift = i < 150 ? 0 : (i < 240 ? -1 : 1);
    choices[i] = static_cast<uint8_t>(exponent + shift);
  }
  return choices;
}

}  // namespace

SynthNoise::SynthNoise(uint64_t seed)
    : seed_(seed), normal_(NormalQuantiles()), packed_(PackedPairs(normal_)) {}

void SynthNoise::Begin(std::string_view name, const SynthFill& fill) {
  key_ = Mix(HashName(name) + seed_ * kWeyl);
  counter_ = 0;
  fill_ = fill;
  if (fill.pattern == SynthPattern::kScales) scales_ = ScaleChoices(fill.deviation);
  const bool same = fill.mean == bf16_for_.mean && fill.deviation == bf16_for_.deviation;
  if (fill.pattern == SynthPattern::kBf16 && (bf16_.empty() || !same)) {
    bf16_.resize(kQuantiles);
    for (size_t i = 0; i < kQuantiles; ++i) {
      bf16_[i] = FloatToBf16(fill.mean + fill.deviation * normal_[i]);
    }
    bf16_for_ = fill;
  }
}

void SynthNoise::Next(std::span<std::byte> out) {
  // One random word becomes `bytes` bytes of the tensor.
  const auto make = [&](size_t bytes, auto&& expand) {
    std::array<std::byte, kStepBytes> piece;
    while (!out.empty()) {
      const uint64_t word = Mix(key_ + kWeyl * ++counter_);
      const size_t n = std::min(bytes, out.size());
      if (n == bytes) {
        expand(word, out.data());
      } else {
        expand(word, piece.data());
        std::memcpy(out.data(), piece.data(), n);
      }
      out = out.subspan(n);
    }
  };
  const auto quarter = [](uint64_t word, int i) { return (word >> (16 * i)) & 0xffff; };
  switch (fill_.pattern) {
    case SynthPattern::kBf16:
      make(8, [&](uint64_t word, std::byte* to) {
        uint64_t four = 0;
        for (int i = 0; i < 4; ++i) four |= uint64_t{bf16_[quarter(word, i)]} << (16 * i);
        std::memcpy(to, &four, sizeof(four));
      });
      break;
    case SynthPattern::kF32:
      make(8, [&](uint64_t word, std::byte* to) {
        // The second draw fills the lower bits of the mantissa.
        constexpr float kFine = 1.0F / 1024;
        std::array<float, 2> two;
        for (int i = 0; i < 2; ++i) {
          const float coarse = normal_[quarter(word, 2 * i)];
          const float fine = normal_[quarter(word, 2 * i + 1)];
          two[i] = fill_.mean + fill_.deviation * (coarse + kFine * fine);
        }
        std::memcpy(to, two.data(), sizeof(two));
      });
      break;
    case SynthPattern::kNibbles:
      make(4, [&](uint64_t word, std::byte* to) {
        uint32_t four = 0;
        for (int i = 0; i < 4; ++i) four |= uint32_t{packed_[quarter(word, i)]} << (8 * i);
        std::memcpy(to, &four, sizeof(four));
      });
      break;
    case SynthPattern::kScales:
      make(8, [&](uint64_t word, std::byte* to) {
        for (int i = 0; i < 8; ++i) to[i] = std::byte{scales_[(word >> (8 * i)) & 0xff]};
      });
      break;
  }
}

}  // namespace kimi_k3
