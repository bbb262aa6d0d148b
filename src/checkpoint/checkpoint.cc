// What an opened checkpoint knows; opening it is checkpoint_opener.cc.
#include "checkpoint/checkpoint.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "checkpoint/checkpoint_opener.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/overlay_binder.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {
namespace {

// Widens `count` stored numbers to f32.
std::vector<float> Widen(std::span<const std::byte> stored, Dtype dtype, size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == Dtype::kF32) {
      std::memcpy(&out[i], stored.data() + i * sizeof(float), sizeof(float));
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, stored.data() + i * sizeof(bits), sizeof(bits));
      out[i] = Bf16ToFloat(bits);
    }
  }
  return out;
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "weights are read as they are stored");

Checkpoint::Checkpoint(std::vector<std::filesystem::path> model_dirs, ModelConfig config)
    : model_dirs_(std::move(model_dirs)),
      config_(std::move(config)),
      slots_(config_),
      locations_(slots_.count()),
      warnings_(config_.warnings) {}

Checkpoint Checkpoint::Open(const std::filesystem::path& model_dir) {
  return Open(std::vector<std::filesystem::path>{model_dir});
}

Checkpoint Checkpoint::Open(std::vector<std::filesystem::path> model_dirs, std::string_view part) {
  return OpenListing(std::move(model_dirs), part, CheckpointOpener::kListedProblems);
}

void Checkpoint::Check(std::vector<std::filesystem::path> model_dirs, std::string_view part) {
  OpenListing(std::move(model_dirs), part, ProblemList::kUnlimited);
}

Checkpoint Checkpoint::OpenListing(std::vector<std::filesystem::path> model_dirs,
                                   std::string_view part, size_t listed_problems) {
  if (model_dirs.empty()) Fail(ErrorKind::kUsage, "no model folder is given");
  std::optional<ModelPart> chosen;
  if (!part.empty()) chosen = ParseModelPart(part);
  CheckFolders(model_dirs);
  ModelConfig config = LoadModelConfig(FolderWith(model_dirs, kConfigName));
  if (chosen) {
    CheckModelPart(*chosen, config);
    config.part = *chosen;
  }
  Checkpoint checkpoint(std::move(model_dirs), std::move(config));
  CheckpointOpener(checkpoint, listed_problems).Run();
  return checkpoint;
}

ByteRange Checkpoint::RangeOf(const LocationTable::Location& location, uint64_t bytes) const {
  return {location.shard, location.offset, bytes};
}

void Checkpoint::UseExperts(size_t count) {
  MoeConfig& moe = config_.moe;
  const size_t most = moe.experts_per_token + config_.experts_left_out;
  if (count > most) {
    Fail(ErrorKind::kUsage, "--experts-per-token {}: the model chooses {} for each token; {}",
         count, most, most == 0 ? "it has no experts" : "fewer can be asked for, not more");
  }
  moe.experts_per_token = count == 0 ? most : count;
  config_.experts_left_out = most - moe.experts_per_token;
}

void Checkpoint::UseOverlay(const std::filesystem::path& folder) {
  OverlayBinder(*this, folder).Run();
}

std::optional<TensorLocation> Checkpoint::Find(Role role, size_t layer) const {
  if (!replaced_.empty()) {
    const auto slot = slots_.TrunkSlot(role, layer);
    const auto replaced = slot ? replaced_.find(*slot) : replaced_.end();
    if (replaced != replaced_.end()) return replaced->second;
  }
  return FindInBase(role, layer);
}

std::optional<TensorLocation> Checkpoint::FindInBase(Role role, size_t layer) const {
  const auto slot = slots_.TrunkSlot(role, layer);
  if (!slot) return std::nullopt;
  const TensorSpec& spec = *slots_.Describe(*slot).spec;
  const auto location = locations_.Get(*slot);
  if (!location) return std::nullopt;
  const Dtype dtype = location->is_f32 ? Dtype::kF32 : Dtype::kBf16;
  return TensorLocation{RangeOf(*location, spec.rows * spec.columns * DtypeBytes(dtype)), dtype,
                        spec.rows, spec.columns};
}

TensorLocation Checkpoint::Demand(std::optional<TensorLocation> found, Role role,
                                  size_t layer) const {
  if (!found) {
    Fail(ErrorKind::kCheckpoint, "{}: layer {} has no {}", model_dir().string(), layer,
         RoleName(role));
  }
  return *found;
}

TensorLocation Checkpoint::Get(Role role, size_t layer) const {
  return Demand(Find(role, layer), role, layer);
}

TensorLocation Checkpoint::GetInBase(Role role, size_t layer) const {
  return Demand(FindInBase(role, layer), role, layer);
}

ExpertMatrixLocation Checkpoint::ExpertMatrix(size_t layer, size_t expert, Role role) const {
  const size_t slot = slots_.ExpertSlot(layer, expert, role, false);
  const TensorSpec& spec = *slots_.Describe(slot).spec;
  const LocationTable::Location location = locations_.Get(slot).value();
  const uint64_t weights = spec.rows * spec.columns;
  if (!config_.mxfp4_experts) {
    const Dtype dtype = location.is_f32 ? Dtype::kF32 : Dtype::kBf16;
    return {RangeOf(location, weights * DtypeBytes(dtype)), {}, dtype};
  }
  const size_t scale_slot = slots_.ExpertSlot(layer, expert, role, true);
  return {RangeOf(location, weights / 2),
          RangeOf(locations_.Get(scale_slot).value(), weights / kMxfp4GroupColumns), Dtype::kU8};
}

ExpertLocation Checkpoint::Expert(size_t layer, size_t expert) const {
  if (layer >= config_.layers || config_.IsDense(layer) || expert >= config_.moe.experts) {
    Fail(ErrorKind::kCheckpoint, "{}: layer {} has no expert {}", model_dir().string(), layer,
         expert);
  }
  if (!config_.part.layers.Has(layer) || !config_.part.experts.Has(expert)) {
    Fail(ErrorKind::kCheckpoint, "{}: expert {} of layer {} is outside the part of the model ({})",
         model_dir().string(), expert, layer, DescribeModelPart(config_));
  }
  return {ExpertMatrix(layer, expert, Role::kExpertGate),
          ExpertMatrix(layer, expert, Role::kExpertUp),
          ExpertMatrix(layer, expert, Role::kExpertDown)};
}

std::string Checkpoint::TensorName(Role role, size_t layer, size_t expert) const {
  std::optional<size_t> slot;
  if (!IsExpertRole(role)) {
    slot = slots_.TrunkSlot(role, layer);
  } else if (layer < config_.layers && !config_.IsDense(layer) && expert < config_.moe.experts) {
    slot = slots_.ExpertSlot(layer, expert, role, false);
  }
  if (!slot) return std::string(RoleName(role));
  return config_.name_prefix + TensorSlots::Name(slots_.Describe(*slot));
}

std::vector<float> Checkpoint::ReadVector(Role role, size_t layer) const {
  const TensorLocation location = Get(role, layer);
  const std::filesystem::path& path = shards_[location.range.shard].path;
  std::vector<std::byte> stored(location.range.bytes);
  ReadExactly(OpenForReading(path), path, location.range.offset, stored);
  std::vector<float> values = Widen(stored, location.dtype, location.rows * location.columns);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      Fail(ErrorKind::kCheckpoint, "{}: tensor {}: element {} is {}; the weights are damaged",
           path.string(), TensorName(role, layer), i, values[i]);
    }
  }
  return values;
}

}  // namespace kimi_k3
