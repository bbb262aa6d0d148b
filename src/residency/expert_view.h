// The three matrices of a routed expert as compute sees them, wherever their bytes lie.
#pragma once

#include <cstddef>
#include <span>

#include "base/function_ref.h"
#include "checkpoint/checkpoint.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// Builds the views; `at` says where in memory a range of the checkpoint now lies. Throws
// Error(kCheckpoint) that names the tensor where a scale stands for NaN.
ExpertWeights ViewExpert(const Checkpoint& checkpoint, size_t layer, size_t expert,
                         const ExpertLocation& location,
                         FunctionRef<const std::byte*(const ByteRange&)> at);

// Widens a row of bf16 or f32 numbers, as stored, to f32. out: [columns]; row: DtypeBytes * columns
// bytes of any alignment.
void WidenRow(Dtype dtype, const std::byte* row, std::span<float> out);

}  // namespace kimi_k3
