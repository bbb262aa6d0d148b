// The three matrices of a routed expert as compute sees them, wherever their bytes lie.
#include "residency/expert_view.h"

#include <cstring>

#include "base/bf16.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

kernels::WeightView ViewMatrix(const Checkpoint& checkpoint, size_t layer, size_t expert, Role role,
                               const ExpertMatrixLocation& location, size_t rows, size_t columns,
                               FunctionRef<const std::byte*(const ByteRange&)> at) {
  const kernels::WeightType unpacked =
      location.dtype == Dtype::kF32 ? kernels::WeightType::kF32 : kernels::WeightType::kBf16;
  kernels::WeightView view = {unpacked, rows, columns, at(location.weights), nullptr};
  if (location.scales.bytes == 0) return view;
  view.type = kernels::WeightType::kMxfp4;
  view.scales = reinterpret_cast<const uint8_t*>(at(location.scales));
  if (kernels::HasNanScale({view.scales, location.scales.bytes})) {
    Fail(ErrorKind::kCheckpoint, "{}: the scales of {} hold a 255, which stands for NaN",
         checkpoint.shards()[location.scales.shard].path.string(),
         checkpoint.TensorName(role, layer, expert));
  }
  return view;
}

}  // namespace

ExpertWeights ViewExpert(const Checkpoint& checkpoint, size_t layer, size_t expert,
                         const ExpertLocation& location,
                         FunctionRef<const std::byte*(const ByteRange&)> at) {
  const ModelConfig& config = checkpoint.config();
  const size_t inner = config.moe.expert_intermediate;
  const size_t width = config.expert_width();
  return {
      ViewMatrix(checkpoint, layer, expert, Role::kExpertGate, location.gate, inner, width, at),
      ViewMatrix(checkpoint, layer, expert, Role::kExpertUp, location.up, inner, width, at),
      ViewMatrix(checkpoint, layer, expert, Role::kExpertDown, location.down, width, inner, at)};
}

void WidenRow(Dtype dtype, const std::byte* row, std::span<float> out) {
  if (dtype == Dtype::kF32) {
    std::memcpy(out.data(), row, out.size_bytes());
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, row + i * sizeof(bits), sizeof(bits));
    out[i] = Bf16ToFloat(bits);
  }
}

}  // namespace kimi_k3
