// What the kernel tests share: instruction sets as parameter, plain references, guarded memory.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "kernels/matmul.h"

namespace kimi_k3::kernels {

// Runs each test on every instruction set that this processor has.
class OnEveryIsa : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseIsa(GetParam()); }
  void TearDown() override { UseIsa("auto"); }
};

#define KIMI_K3_ON_EVERY_ISA(Suite)                    \
  using Suite = OnEveryIsa;                            \
  INSTANTIATE_TEST_SUITE_P(                            \
      AllIsas, Suite, testing::ValuesIn(UsableIsas()), \
      [](const testing::TestParamInfo<std::string>& isa) { return isa.param; })

// The bits of a float; all NaN are one, since their payload differs between processors.
inline uint32_t Bits(float value) {
  return std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(value);
}

inline std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(Bits(value));
  return bits;
}

inline std::vector<float> RandomFloats(size_t n, uint32_t seed, float low = -1.0F,
                                       float high = 1.0F) {
  std::mt19937 generator(seed);
  std::vector<float> values(n);
  for (float& value : values) {
    value = low + (high - low) * static_cast<float>(generator() >> 8) / 16777216.0F;
  }
  return values;
}

// The summation contract, spelled out one column at a time.
inline float ContractDot(std::span<const float> a, std::span<const float> b) {
  float sums[16] = {};
  for (size_t c = 0; c < a.size(); ++c) sums[c % 16] = std::fma(a[c], b[c], sums[c % 16]);
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

// Memory between two pages that may not be touched, so that its end (or its beginning) is exact.
class GuardedBytes {
 public:
  enum class At { kEnd, kBeginning };
  explicit GuardedBytes(std::span<const std::byte> content, At at = At::kEnd);
  ~GuardedBytes();
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  std::byte* data() { return data_; }
  float* floats() { return reinterpret_cast<float*>(data_); }

 private:
  std::byte* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::byte* data_ = nullptr;
};

inline std::span<const std::byte> AsBytes(std::span<const float> values) {
  return std::as_bytes(values);
}

// A weight matrix with its exact values, stored at an address that is odd on purpose.
class TestWeights {
 public:
  TestWeights(WeightType type, size_t rows, size_t columns, uint32_t seed);
  WeightView view() const;
  // Exact values of one row.
  std::span<const float> row(size_t r) const {
    return std::span(values_).subspan(r * columns_, columns_);
  }
  std::span<const std::byte> bytes() const { return std::span(data_).subspan(1); }
  std::span<const uint8_t> scales() const { return scales_; }

 private:
  WeightType type_;
  size_t rows_;
  size_t columns_;
  std::vector<std::byte> data_;  // one byte of offset, then the matrix
  std::vector<uint8_t> scales_;
  std::vector<float> values_;
};

// E2M1 value of a nibble times 2^(scale - 127).
float Mxfp4Value(uint8_t nibble, uint8_t scale);

}  // namespace kimi_k3::kernels
