// The types of the latent cache and the recurrent state, as the public interface, the kernels and
// the user name them.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/delta_rule.h"
#include "kernels/latent_attention.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

inline kernels::CacheType CacheTypeOf(KvCacheType type) {
  switch (type) {
    case KvCacheType::kF32:
      return kernels::CacheType::kF32;
    case KvCacheType::kBf16:
      return kernels::CacheType::kBf16;
    case KvCacheType::kQ8:
      return kernels::CacheType::kQ8;
    case KvCacheType::kQ4:
      return kernels::CacheType::kQ4;
  }
  return kernels::CacheType::kF32;
}

// As session files and --kv-cache-quant name it, but that the flag says "none" for f32.
inline std::string_view KvCacheName(KvCacheType type) {
  switch (type) {
    case KvCacheType::kF32:
      return "f32";
    case KvCacheType::kBf16:
      return "bf16";
    case KvCacheType::kQ8:
      return "q8";
    case KvCacheType::kQ4:
      return "q4";
  }
  return "f32";
}

// The type of that name; nothing for any other text.
inline std::optional<KvCacheType> KvCacheNamed(std::string_view name) {
  for (const KvCacheType type :
       {KvCacheType::kF32, KvCacheType::kBf16, KvCacheType::kQ8, KvCacheType::kQ4}) {
    if (KvCacheName(type) == name) return type;
  }
  return std::nullopt;
}

inline kernels::StateType StateTypeOf(StateType type) {
  return type == StateType::kBf16 ? kernels::StateType::kBf16 : kernels::StateType::kF32;
}

// As session files and --state-type name it.
inline std::string_view StateTypeName(StateType type) {
  return type == StateType::kBf16 ? "bf16" : "f32";
}

// The type of that name; nothing for any other text.
inline std::optional<StateType> StateTypeNamed(std::string_view name) {
  for (const StateType type : {StateType::kF32, StateType::kBf16}) {
    if (StateTypeName(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace kimi_k3
