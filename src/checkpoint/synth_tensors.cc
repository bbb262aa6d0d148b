// Which tensors a made-up checkpoint holds, in which order, and what each is filled with.
#include "checkpoint/synth_tensors.h"

#include <cmath>
#include <optional>
#include <utility>

#include "checkpoint/model_folders.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/tensor_slots.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

using nlohmann::json;

float FanIn(size_t columns) { return 1.0F / std::sqrt(static_cast<float>(columns)); }

// Mean and deviation that keep activations and logits of order one at any size.
SynthFill FillOf(const TensorSpec& spec) {
  SynthFill fill;
  switch (spec.role) {
    case Role::kEmbedding:
    case Role::kKdaQConv:
    case Role::kKdaKConv:
    case Role::kKdaVConv:
    case Role::kKdaALog:
      fill.deviation = 0.5F;
      break;
    case Role::kHead:
      fill.deviation = 2 * FanIn(spec.columns);
      break;
    case Role::kOutputResProj:
    case Role::kAttentionResProj:
    case Role::kMlpResProj:
      fill.deviation = FanIn(spec.columns);
      break;
    case Role::kKdaDtBias:
      // Decays with memories of a few to some hundreds of positions.
      fill = {SynthPattern::kBf16, -3.0F, 1.5F};
      break;
    case Role::kRouterBias:
      fill.deviation = 0.02F;
      break;
    default:
      fill = spec.kind == TensorKind::kVector
                 ? SynthFill{SynthPattern::kBf16, 1.0F, 0.1F}
                 : SynthFill{SynthPattern::kBf16, 0.0F, FanIn(spec.columns)};
  }
  return fill;
}

// The tensors that the published K3 stores in f32.
bool IsPublishedAsF32(Role role) {
  switch (role) {
    case Role::kKdaALog:
    case Role::kKdaDtBias:
    case Role::kKdaQConv:
    case Role::kKdaKConv:
    case Role::kKdaVConv:
    case Role::kKdaONorm:
    case Role::kRouterBias:
      return true;
    default:
      return false;
  }
}

uint64_t BytesOf(const SynthTensor& tensor) {
  uint64_t bytes = DtypeBytes(tensor.dtype);
  for (const uint64_t size : tensor.shape) bytes *= size;
  return bytes;
}

// A small size out of the vision config; nothing where it is absent or odd.
std::optional<uint64_t> VisionSize(const json& vision, const char* name) {
  constexpr uint64_t kMost = 1 << 16;
  const auto found = vision.find(name);
  if (found == vision.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto size = found->get<uint64_t>();
  if (size == 0 || size > kMost) return std::nullopt;
  return size;
}

}  // namespace

SynthTensors::SynthTensors(ModelConfig config, const json& top) : config_(std::move(config)) {
  const auto vision = top.find("vision_config");
  if (vision != top.end() && vision->is_object()) MakeVision(*vision);
}

void SynthTensors::MakeVision(const json& vision) {
  const auto hidden = VisionSize(vision, "vt_hidden_size");
  const auto text = VisionSize(vision, "text_hidden_size");
  const auto qkv = VisionSize(vision, "qkv_hidden_size");
  const auto intermediate = VisionSize(vision, "vt_intermediate_size");
  const auto layers = VisionSize(vision, "vt_num_hidden_layers");
  const auto height = VisionSize(vision, "init_pos_emb_height");
  const auto width = VisionSize(vision, "init_pos_emb_width");
  const auto patch = VisionSize(vision, "patch_size");
  if (!hidden || !text || !qkv || !intermediate || !layers || !height || !width || !patch) return;
  const auto add = [](std::vector<SynthTensor>& list, std::string name,
                      std::vector<uint64_t> shape) {
    SynthTensor tensor{std::move(name), Dtype::kBf16, std::move(shape), 0, {}};
    tensor.fill.deviation = 0.02F;
    tensor.bytes = BytesOf(tensor);
    list.push_back(std::move(tensor));
  };
  // The projector reads squares of two by two patches at once.
  constexpr uint64_t kMerged = 4;
  constexpr uint64_t kColours = 3;
  const uint64_t merged = kMerged * *hidden;
  add(projector_, "mm_projector.post_norm.weight", {*text});
  add(projector_, "mm_projector.proj.0.weight", {merged, merged});
  add(projector_, "mm_projector.proj.2.weight", {*text, merged});
  for (uint64_t layer = 0; layer < *layers; ++layer) {
    const std::string block = "vision_tower.encoder.blocks." + std::to_string(layer) + ".";
    add(tower_, block + "mlp.fc0.weight", {*intermediate, *hidden});
    add(tower_, block + "mlp.fc1.weight", {*hidden, *intermediate});
    add(tower_, block + "norm0.weight", {*hidden});
    add(tower_, block + "norm1.weight", {*hidden});
    add(tower_, block + "wo.weight", {*hidden, *qkv});
    add(tower_, block + "wqkv.weight", {3 * *qkv, *hidden});
  }
  add(tower_, "vision_tower.encoder.final_layernorm.weight", {*hidden});
  add(tower_, "vision_tower.patch_embed.pos_emb.weight", {*height, *width, *hidden});
  add(tower_, "vision_tower.patch_embed.proj.weight", {*hidden, kColours, *patch, *patch});
}

size_t SynthTensors::units() const { return config_.layers + 1 + (projector_.empty() ? 0 : 2); }

SynthTensor SynthTensors::Trunk(const TensorSpec& spec, size_t layer) const {
  // The flat relatives store everything in bf16 and A_log with all its dimensions.
  const bool nested = !config_.name_prefix.empty();
  SynthTensor tensor;
  tensor.name = config_.name_prefix + TensorSlots::Name({&spec, layer, 0, false});
  tensor.dtype = nested && IsPublishedAsF32(spec.role) ? Dtype::kF32 : Dtype::kBf16;
  tensor.shape = DiskShape(spec, config_);
  if (!nested && spec.role == Role::kKdaALog) tensor.shape = {1, 1, spec.columns, 1};
  tensor.bytes = BytesOf(tensor);
  tensor.fill = FillOf(spec);
  if (tensor.dtype == Dtype::kF32) tensor.fill.pattern = SynthPattern::kF32;
  return tensor;
}

void SynthTensors::VisitSpecs(const std::vector<TensorSpec>& specs, size_t layer,
                              FunctionRef<void(const SynthTensor&)> visit) const {
  for (const TensorSpec& spec : specs) {
    if (!IsExpertRole(spec.role)) visit(Trunk(spec, layer));
  }
}

void SynthTensors::VisitExperts(const std::vector<TensorSpec>& specs, size_t layer,
                                FunctionRef<void(const SynthTensor&)> visit) const {
  SynthTensor tensor;
  const auto give = [&](const TensorSpec& spec, size_t expert, bool scales, SynthPattern pattern) {
    tensor.name = config_.name_prefix + TensorSlots::Name({&spec, layer, expert, scales});
    tensor.shape = scales ? ScaleShape(spec) : DiskShape(spec, config_);
    tensor.bytes = BytesOf(tensor);
    tensor.fill = {pattern, 0.0F, FanIn(spec.columns)};
    visit(tensor);
  };
  for (size_t expert = 0; expert < config_.moe.experts; ++expert) {
    for (const TensorSpec& spec : specs) {
      if (!IsExpertRole(spec.role)) continue;
      tensor.dtype = config_.mxfp4_experts ? Dtype::kU8 : Dtype::kBf16;
      if (config_.mxfp4_experts) {
        give(spec, expert, false, SynthPattern::kNibbles);
        give(spec, expert, true, SynthPattern::kScales);
      } else {
        give(spec, expert, false, SynthPattern::kBf16);
      }
    }
  }
}

void SynthTensors::Visit(size_t unit, FunctionRef<void(const SynthTensor&)> visit) const {
  if (unit < config_.layers) {
    const std::vector<TensorSpec> specs = TensorSpecs(config_, unit);
    VisitSpecs(specs, unit, visit);
    VisitExperts(specs, unit, visit);
  } else if (unit == config_.layers) {
    VisitSpecs(TensorSpecs(config_, std::nullopt), 0, visit);
  } else {
    for (const SynthTensor& tensor : unit == config_.layers + 1 ? projector_ : tower_) {
      visit(tensor);
    }
  }
}

nlohmann::json LoadConfigJson(std::span<const std::filesystem::path> model_dirs) {
  const std::filesystem::path path = FolderWith(model_dirs, kConfigName) / kConfigName;
  return ParseStrictJson(ReadTextFile(path, kConfigBytesLimit), path.string());
}

uint64_t SynthTensors::UnitBytes(size_t unit) const {
  uint64_t bytes = 0;
  Visit(unit, [&](const SynthTensor& tensor) { bytes += tensor.bytes; });
  return bytes;
}

}  // namespace kimi_k3
