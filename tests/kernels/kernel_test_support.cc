// Plain references and guarded memory for the kernel tests.
#include "kernels/kernel_test_support.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "base/bf16.h"
#include "base/quantized_group.h"

namespace kimi_k3::kernels {

GuardedBytes::GuardedBytes(std::span<const std::byte> content, At at) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t inner = (content.size() + page - 1) / page * page;
  map_bytes_ = inner + 2 * page;
  void* const map = mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::runtime_error("mmap");
  map_ = static_cast<std::byte*>(map);
  if (inner > 0 && mprotect(map_ + page, inner, PROT_READ | PROT_WRITE) != 0) {
    throw std::runtime_error("mprotect");
  }
  data_ = map_ + page + (at == At::kEnd ? inner - content.size() : 0);
  if (!content.empty()) std::memcpy(data_, content.data(), content.size());
}

GuardedBytes::~GuardedBytes() { munmap(map_, map_bytes_); }

float Mxfp4Value(uint8_t nibble, uint8_t scale) {
  constexpr double kMagnitudes[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  const double magnitude = std::ldexp(kMagnitudes[nibble & 7], scale - 127);
  return static_cast<float>((nibble & 8) != 0 ? -magnitude : magnitude);
}

TestWeights::TestWeights(WeightType type, size_t rows, size_t columns, uint32_t seed)
    : type_(type), rows_(rows), columns_(columns), data_(1 + rows * RowBytes(type, columns)) {
  std::mt19937 generator(seed);
  std::byte* out = data_.data() + 1;
  if (type == WeightType::kMxfp4) {
    for (size_t i = 0; i < rows * columns / 2; ++i) out[i] = static_cast<std::byte>(generator());
    for (size_t i = 0; i < rows * columns / kMxfp4GroupColumns; ++i) {
      scales_.push_back(static_cast<uint8_t>(110 + generator() % 20));
    }
    for (size_t i = 0; i < rows * columns; ++i) {
      const auto byte = static_cast<uint8_t>(out[i / 2]);
      const auto nibble = static_cast<uint8_t>(i % 2 == 0 ? byte & 15 : byte >> 4);
      values_.push_back(Mxfp4Value(nibble, scales_[i / kMxfp4GroupColumns]));
    }
    return;
  }
  if (type == WeightType::kQ8 || type == WeightType::kQ4) {
    const size_t group_bytes = type == WeightType::kQ8 ? kQ8GroupBytes : kQ4GroupBytes;
    for (std::byte* group = out; group < data_.data() + data_.size(); group += group_bytes) {
      for (size_t i = 0; i < group_bytes; ++i) group[i] = static_cast<std::byte>(generator());
      const uint16_t scale =
          FloatToBf16((static_cast<float>(generator() % 4000) - 2000.0F) * 1e-5F);
      std::memcpy(group, &scale, kScaleBytes);
      std::array<float, kQuantizedGroupColumns> values;
      if (type == WeightType::kQ8) {
        DecodeQ8Group(std::span<const std::byte, kQ8GroupBytes>(group, kQ8GroupBytes), values);
      } else {
        DecodeQ4Group(std::span<const std::byte, kQ4GroupBytes>(group, kQ4GroupBytes), values);
      }
      values_.insert(values_.end(), values.begin(), values.end());
    }
    return;
  }
  for (const float value : RandomFloats(rows * columns, seed)) {
    if (type == WeightType::kF32) {
      std::memcpy(out + values_.size() * 4, &value, 4);
      values_.push_back(value);
    } else {
      const uint16_t half = FloatToBf16(value);
      std::memcpy(out + values_.size() * 2, &half, 2);
      values_.push_back(Bf16ToFloat(half));
    }
  }
}

WeightView TestWeights::view() const {
  WeightView view;
  view.type = type_;
  view.rows = rows_;
  view.columns = columns_;
  view.data = data_.data() + 1;
  view.scales = scales_.data();
  return view;
}

}  // namespace kimi_k3::kernels
