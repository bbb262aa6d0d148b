// Binds what the shards' headers say to the places that the model has for tensors.
#include "checkpoint/tensor_binder.h"

#include <algorithm>
#include <utility>

#include "checkpoint/folder_report.h"
#include "checkpoint/model_folders.h"

namespace kimi_k3 {
namespace {

bool IsIgnored(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
}

}  // namespace

TensorBinder::TensorBinder(const BindingTarget& target, std::filesystem::path index,
                           const ShardPromises& promises, NamePrefix& prefix, ProblemList& problems)
    : target_(target),
      index_(std::move(index)),
      promises_(promises),
      prefix_(prefix),
      problems_(problems),
      refused_(target.slots.count(), false) {}

std::optional<size_t> TensorBinder::Bind(size_t shard, uint64_t data_offset,
                                         const HeaderTensor& tensor) {
  ++counts_.tensors;
  counts_.bytes += tensor.end - tensor.begin;
  const auto match = target_.slots.Find(tensor.name);
  if (!match) {
    BindStranger(shard, tensor);
    return std::nullopt;
  }
  prefix_.Note(match->prefixed, tensor.name, problems_);
  if (const auto other = target_.locations.Get(match->slot)) {
    // The header parser has told of a name that one shard holds twice.
    if (other->shard != shard) {
      problems_.Add("{}: tensor {} is in {} too", ShardName(shard), Printable(tensor.name),
                    ShardName(other->shard));
    }
    return std::nullopt;
  }
  CheckPromise(shard, promises_.OfSlot(match->slot), tensor.name);
  if (!Fits(shard, target_.slots.Describe(match->slot), tensor)) {
    refused_[match->slot] = true;
    return std::nullopt;
  }
  target_.locations.Set(match->slot, {static_cast<uint32_t>(shard), data_offset + tensor.begin,
                                      tensor.dtype == DtypeName(Dtype::kF32)});
  return match->slot;
}

void TensorBinder::Assume(const SynthTensor& tensor) {
  const auto match = target_.slots.Find(tensor.name);
  const uint16_t shard = match ? promises_.OfSlot(match->slot) : promises_.OfStranger(tensor.name);
  if (shard == ShardPromises::kNoShard) return;
  if (match) {
    target_.locations.Set(match->slot, {shard, 0, tensor.dtype == Dtype::kF32});
  } else {
    strangers_.emplace(tensor.name, shard);
    ++counts_.ignored;
  }
  ++counts_.tensors;
  counts_.bytes += tensor.bytes;
}

// Config and weights that come from two versions of a model differ in every expert; one line says
// why, before the list begins.
void TensorBinder::HintAtPacking(std::string_view name) {
  const bool packed = target_.checkpoint.config().mxfp4_experts;
  const bool expert = name.find(".experts.") != std::string_view::npos;
  const bool other = name.ends_with(packed ? ".weight" : ".weight_packed");
  if (!expert || !other || std::exchange(hinted_at_packing_, true)) return;
  problems_.Add("{}: the experts are {}, but config.json has {}",
                DirNames(target_.checkpoint.model_dirs()),
                packed ? "not packed" : "packed as MXFP4",
                packed ? "a quantization_config" : "no quantization_config");
}

void TensorBinder::BindStranger(size_t shard, const HeaderTensor& tensor) {
  if (IsIgnored(tensor.name)) {
    ++counts_.ignored;
  } else {
    HintAtPacking(tensor.name);
    problems_.Add("{}: tensor {} is not part of the model that config.json describes",
                  ShardName(shard), Printable(tensor.name));
  }
  size_t& found = strangers_.try_emplace(std::string(tensor.name), shard).first->second;
  if (found != shard) {
    problems_.Add("{}: tensor {} is in {} too", ShardName(shard), Printable(tensor.name),
                  ShardName(found));
    found = shard;
  }
  CheckPromise(shard, promises_.OfStranger(tensor.name), tensor.name);
}

void TensorBinder::CheckPromise(size_t shard, uint16_t promised, std::string_view name) {
  if (!promises_.indexed() || promised == shard) return;
  if (promised == ShardPromises::kNoShard) {
    problems_.Add("{}: tensor {} is not named by {}", ShardName(shard), Printable(name),
                  kIndexName);
  } else {
    const std::vector<std::string>& names = promises_.shard_names();
    problems_.Add("{}: says that tensor {} is in {}, but it is in {}", index_.string(),
                  Printable(name), names[promised], names[shard]);
  }
}

// Experts are read into slots of one size, so all are bf16 or all f32.
bool TensorBinder::AlikeExpert(size_t shard, const HeaderTensor& tensor) {
  if (expert_dtype_.empty()) expert_dtype_ = tensor.dtype;
  if (expert_dtype_ == tensor.dtype) return true;
  problems_.Add("{}: tensor {} is stored as {}, but experts before it as {}; all must be alike",
                ShardName(shard), Printable(tensor.name), tensor.dtype, expert_dtype_);
  return false;
}

bool TensorBinder::DtypeFits(size_t shard, const TensorSlots::Tensor& wanted,
                             const HeaderTensor& tensor) {
  const bool expert = wanted.spec->kind == TensorKind::kExpert;
  const bool packed = target_.checkpoint.config().mxfp4_experts && expert;
  const bool fits =
      packed ? tensor.dtype == DtypeName(Dtype::kU8)
             : tensor.dtype == DtypeName(Dtype::kBf16) || tensor.dtype == DtypeName(Dtype::kF32);
  if (!fits) {
    problems_.Add("{}: tensor {} is stored as {}; here it must be {}", ShardName(shard),
                  Printable(tensor.name), Printable(tensor.dtype, 40),
                  packed ? "U8 (MXFP4)" : "BF16 or F32");
    return false;
  }
  return packed || !expert || AlikeExpert(shard, tensor);
}

bool TensorBinder::Fits(size_t shard, const TensorSlots::Tensor& wanted,
                        const HeaderTensor& tensor) {
  if (!DtypeFits(shard, wanted, tensor)) return false;
  const ModelConfig& config = target_.checkpoint.config();
  const TensorSpec& spec = *wanted.spec;
  const bool fits = wanted.scales ? std::ranges::equal(tensor.shape, ScaleShape(spec))
                                  : ShapeFits(spec, config, tensor.shape);
  if (!fits) {
    const auto shape = wanted.scales ? ScaleShape(spec) : DiskShape(spec, config);
    problems_.Add("{}: tensor {} has the shape {}, but config.json demands {}", ShardName(shard),
                  Printable(tensor.name), ShapeText(tensor.shape), ShapeText(shape));
  }
  return fits;
}

}  // namespace kimi_k3
