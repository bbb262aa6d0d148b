// Groups of 32 weights as small whole numbers with a common scale: layout, encoder and decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kimi_k3 {

// A row of weights is a run of groups of 32 columns, each a scale (bf16, little-endian) and behind
// it the whole numbers. A weight stands for number x scale, which is exact in f32.
inline constexpr size_t kQuantizedGroupColumns = 32;
inline constexpr size_t kScaleBytes = 2;
// q8: 32 signed bytes, column after column.
inline constexpr size_t kQ8GroupBytes = kScaleBytes + kQuantizedGroupColumns;
// q4: 16 bytes; byte i has the number of column i in its low nibble and that of column 16 + i in
// its high nibble, each plus 8.
inline constexpr size_t kQ4GroupBytes = kScaleBytes + kQuantizedGroupColumns / 2;
inline constexpr int kQ4Bias = 8;

using GroupWeights = std::span<const float, kQuantizedGroupColumns>;

// Writes the group whose scale gives the least sum of squared errors: for q8 among the bf16 numbers
// at a 127th of the largest magnitude, for q4 among the least-squares scales of several
// assignments. The weights must be finite; the group then decodes to finite numbers. The bytes
// depend on the weights alone. Allocate nothing.
void EncodeQ8Group(GroupWeights weights, std::span<std::byte, kQ8GroupBytes> out);
void EncodeQ4Group(GroupWeights weights, std::span<std::byte, kQ4GroupBytes> out);

void DecodeQ8Group(std::span<const std::byte, kQ8GroupBytes> group,
                   std::span<float, kQuantizedGroupColumns> out);
void DecodeQ4Group(std::span<const std::byte, kQ4GroupBytes> group,
                   std::span<float, kQuantizedGroupColumns> out);

// True where the scale of one of the groups (`group_bytes` each, a whole number of them) is no
// number or so large that a weight would be infinite.
bool HasBadGroupScale(std::span<const std::byte> groups, size_t group_bytes);

}  // namespace kimi_k3
