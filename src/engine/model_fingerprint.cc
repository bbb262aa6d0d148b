// Telling models apart, cheaply.
#include "engine/model_fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/fnv_hash.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {
namespace {

constexpr size_t kSampleBytes = 1024;

// Floats by their bits, so that no digit is lost.
uint32_t Bits(float number) { return std::bit_cast<uint32_t>(number); }

std::string GeometryText(const ModelConfig& c) {
  const KdaConfig& kda = c.kda;
  const MlaConfig& mla = c.mla;
  const MoeConfig& moe = c.moe;
  return fmt::format(
      "hidden {} layers {} vocabulary {} epsilon {} activation {} {} {} residual block {} dense {} "
      "mxfp4 {}; kda {} {} {} {} {}; mla {} {} {} {} {} {} {}; moe {} {} {} {} {} {} {} {} {} {} "
      "{}; mla layers {}; dense layers {}; part {} {} {} {}; positions {}",
      c.hidden, c.layers, c.vocabulary, Bits(c.rms_epsilon), static_cast<int>(c.activation),
      Bits(c.situ_beta), Bits(c.situ_linear_beta), c.attn_res_block, c.dense_intermediate,
      c.mxfp4_experts, kda.heads, kda.head_dim, kda.conv_taps,
      kda.gate_lower_bound ? fmt::to_string(Bits(*kda.gate_lower_bound)) : "none",
      kda.full_rank_gate, mla.heads, mla.q_lora_rank, mla.kv_lora_rank, mla.qk_nope_head_dim,
      mla.qk_rope_head_dim, mla.v_head_dim, mla.output_gate, moe.experts, moe.experts_per_token,
      moe.shared_experts, moe.expert_intermediate, moe.latent, moe.latent_norm, moe.softmax_router,
      moe.renormalize, Bits(moe.scaling), moe.groups, moe.groups_kept, fmt::join(c.mla_layers, ""),
      fmt::join(c.dense_layers, ""), c.first_layer(), c.end_layer(),
      moe.experts == 0 ? 0 : c.part.experts.first, c.experts_present(), c.max_positions);
}

class Fingerprint {
 public:
  explicit Fingerprint(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  std::string Make() {
    const ModelConfig& config = checkpoint_.config();
    hash_.Add(GeometryText(config));
    AddTensors(std::nullopt);
    for (size_t layer = config.first_layer(); layer < config.end_layer(); ++layer) {
      AddTensors(layer);
      if (!config.IsDense(layer) && config.experts_present() > 0) AddExpert(layer);
    }
    return fmt::format("{:016x}", hash_.value());
  }

 private:
  // Types and shapes of all; of one matrix a layer, another one in each, what is in its middle.
  void AddTensors(std::optional<size_t> layer) {
    std::vector<TensorLocation> matrices;
    for (const TensorSpec& spec : TensorSpecs(checkpoint_.config(), layer)) {
      if (IsExpertRole(spec.role)) continue;
      const TensorLocation tensor = checkpoint_.GetInBase(spec.role, layer.value_or(0));
      hash_.Add(fmt::format("{} {} {} {};", static_cast<int>(spec.role),
                            static_cast<int>(tensor.dtype), tensor.rows, tensor.columns));
      if (spec.kind != TensorKind::kVector) matrices.push_back(tensor);
    }
    if (!matrices.empty()) Sample(matrices[layer.value_or(0) % matrices.size()].range);
  }

  void AddExpert(size_t layer) {
    const ModelConfig& config = checkpoint_.config();
    const size_t expert = config.part.experts.first + layer % config.experts_present();
    const ExpertMatrixLocation matrix = checkpoint_.Expert(layer, expert).down;
    hash_.Add(fmt::format("expert {} {};", static_cast<int>(matrix.dtype), matrix.weights.bytes));
    Sample(matrix.weights);
  }

  void Sample(const ByteRange& range) {
    std::array<std::byte, kSampleBytes> sample;
    const uint64_t size = std::min<uint64_t>(range.bytes, sample.size());
    const std::filesystem::path& path = checkpoint_.shards()[range.shard].path;
    ReadExactly(OpenForReading(path), path, range.offset + (range.bytes - size) / 2,
                std::span(sample).first(size));
    hash_.Add(std::span(sample).first(size));
  }

  const Checkpoint& checkpoint_;
  FnvHash hash_;
};

}  // namespace

std::string ModelFingerprint(const Checkpoint& checkpoint) {
  return Fingerprint(checkpoint).Make();
}

}  // namespace kimi_k3
