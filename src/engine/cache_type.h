// The type of the latent cache, as the public interface and as the kernels name it.
#pragma once

#include <string_view>

#include "kernels/latent_attention.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

inline kernels::CacheType CacheTypeOf(KvCacheType type) {
  return type == KvCacheType::kBf16 ? kernels::CacheType::kBf16 : kernels::CacheType::kF32;
}

// As session files and --kv-cache-quant name it, but that the flag says "none" for f32.
inline std::string_view KvCacheName(KvCacheType type) {
  return type == KvCacheType::kBf16 ? "bf16" : "f32";
}

}  // namespace kimi_k3
