// Rows of the latent cache as they are stored: whole numbers, bf16, or blocks of small integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kimi_k3::kernels {

// kQ8, kQ4: blocks of kCacheBlock numbers, the last one perhaps shorter; each number is an integer
// (of 8 bits, -127 .. 127, or of 4 bits, -8 .. 7) times the block's scale, a bf16. The product has
// at most 15 significant bits, so it is exact in f32.
enum class CacheType : uint8_t { kF32, kBf16, kQ8, kQ4 };

inline constexpr size_t kCacheBlock = 32;

// Bytes of a row of `width` numbers; kQ8, kQ4: all integers, then all scales. The integers of a
// kQ4 block of n numbers take (n + 1) / 2 bytes, number i the lower half of byte i and number
// i + (n + 1) / 2 the upper half, each with 8 added.
size_t CacheRowBytes(CacheType type, size_t width);

// Writes `values` as a row to CacheRowBytes(type, values.size()) bytes at `row`, which need not be
// aligned. The bytes depend on the values alone, not on the instruction set.
// kBf16 rounds to the nearest, ties to even. kQ8: the scale is the largest magnitude / 127, rounded
// up to bf16, so no number is off by more than half a scale. kQ4: of eight starting scales, so
// chosen that the largest magnitude becomes -8.5, -8, .. or -5, the integers that each gives are
// fitted a scale by least squares (rounded to bf16), and the pair with the least sum of squared
// errors is stored.
// A block of kQ8 or kQ4 with a number that is NaN, infinite or not below 2^126 reads as NaN as a
// whole; one whose numbers are all below 2^-100 reads as zeros.
void StoreCacheRow(CacheType type, std::span<const float> values, std::byte* row);

// The numbers that a row stands for; out: [width].
void ExpandCacheRow(CacheType type, const std::byte* row, size_t width, float* out);

}  // namespace kimi_k3::kernels
