// The one way of quantisation that is read: MXFP4 experts as the published checkpoint packs them.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/problem_list.h"

namespace kimi_k3 {

// The name of that way in a config.
inline constexpr std::string_view kMxfp4Format = "mxfp4-pack-quantized";

// Checks a quantization_config object against compressed-tensors, mxfp4-pack-quantized, groups of
// 32 columns. Whatever would change what the packed bytes stand for, or how activations are kept,
// is listed in `problems`, each line starting with source and path.
void CheckQuantizationConfig(const nlohmann::json& object, std::string_view source,
                             std::string_view path, ProblemList& problems);

}  // namespace kimi_k3
