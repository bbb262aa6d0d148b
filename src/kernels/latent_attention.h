// Softmax attention of several query heads over one latent cache (absorbed MLA).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cache_rows.h"

namespace kimi_k3::kernels {

// The cached rows of one layer and sequence: [positions, width], each as StoreCacheRow writes it,
// where width = latent + rope; the first `latent` numbers of a row are the normalised latent, the
// rest the shared rope key.
struct LatentCacheView {
  CacheType type = CacheType::kF32;
  const std::byte* data = nullptr;
  size_t width = 0;
  size_t latent = 0;
};

// Floats of scratch that LatentAttention needs for `heads` heads.
size_t LatentAttentionScratch(size_t heads, size_t width);

// For each head h: scores over rows 0 .. positions-1 of the cache,
// s_p = scale * sum_j q[h * width + j] * row_p[j] (summation contract), softmax, and
// out[h * latent + j] = sum_p softmax_p row_p[j]. Rows are taken in blocks of fixed size that start
// at multiples of it, with a running maximum and sum, in ascending order; a head's result depends
// on its own query and the rows alone: not on `heads`, nor on how a prompt was cut. docs/model.md
// section 3.
void LatentAttention(const LatentCacheView& cache, size_t positions, const float* q, size_t heads,
                     float scale, float* scratch, float* out);

}  // namespace kimi_k3::kernels
