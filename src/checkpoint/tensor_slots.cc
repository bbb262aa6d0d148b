// A dense number for every tensor that a config demands, and the way from a name to it.
#include "checkpoint/tensor_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace kimi_k3 {
namespace {

constexpr std::string_view kLayers = "model.layers.";
constexpr std::string_view kLayerMark = "{L}.";
constexpr std::string_view kExperts = "block_sparse_moe.experts.";
constexpr std::string_view kExpertMark = "{E}.";

// Takes a number written as writers do (no sign, no leading zero) and the dot after it off `text`.
std::optional<size_t> TakeNumber(std::string_view& text) {
  size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop == end || *stop != '.') return std::nullopt;
  if (text.front() == '0' && stop - text.data() > 1) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - text.data()) + 1);
  return number;
}

std::string_view After(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == std::string_view::npos ? text : text.substr(at + mark.size());
}

void Replace(std::string& text, std::string_view mark, size_t number) {
  const size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), std::to_string(number));
}

}  // namespace

TensorSlots::LayerKind TensorSlots::MakeKind(const std::vector<TensorSpec>& specs, bool mxfp4) {
  LayerKind kind;
  kind.index_of_role.fill(-1);
  for (const TensorSpec& spec : specs) {
    if (IsExpertRole(spec.role)) {
      kind.expert_names.push_back(After(spec.name, kExpertMark));
      if (mxfp4) kind.expert_names.push_back(After(ScaleName(spec.role), kExpertMark));
      kind.experts.push_back(spec);
    } else {
      kind.index_of_role[static_cast<size_t>(spec.role)] = static_cast<int16_t>(kind.trunk.size());
      kind.index_of_name.emplace(After(spec.name, kLayerMark), kind.trunk.size());
      kind.trunk.push_back(spec);
    }
  }
  return kind;
}

TensorSlots::TensorSlots(const ModelConfig& config)
    : layers_(config.layers),
      experts_(config.moe.experts),
      mxfp4_(config.mxfp4_experts),
      model_(MakeKind(TensorSpecs(config, std::nullopt), mxfp4_)) {
  count_ = model_.trunk.size();
  std::array<int, 4> kind_of_make;
  kind_of_make.fill(-1);
  for (size_t layer = 0; layer < layers_; ++layer) {
    int& kind = kind_of_make[(config.IsMla(layer) ? 2 : 0) + (config.IsDense(layer) ? 1 : 0)];
    if (kind < 0) {
      kind = static_cast<int>(kinds_.size());
      kinds_.push_back(MakeKind(TensorSpecs(config, layer), mxfp4_));
    }
    kind_of_layer_.push_back(static_cast<uint8_t>(kind));
    first_slot_.push_back(count_);
    count_ += kinds_[kind].trunk.size() + kinds_[kind].expert_names.size() * experts_;
  }
}

std::optional<TensorSlots::Match> TensorSlots::Find(std::string_view name) const {
  Match match;
  if (name.starts_with(kNamePrefix)) {
    match.prefixed = true;
    name.remove_prefix(kNamePrefix.size());
  }
  std::optional<size_t> slot;
  if (name.starts_with(kLayers)) {
    slot = FindInLayer(name.substr(kLayers.size()));
  } else if (const auto found = model_.index_of_name.find(name);
             found != model_.index_of_name.end()) {
    slot = found->second;
  }
  if (!slot) return std::nullopt;
  match.slot = *slot;
  return match;
}

std::optional<size_t> TensorSlots::FindInLayer(std::string_view rest) const {
  const auto layer = TakeNumber(rest);
  if (!layer || *layer >= layers_) return std::nullopt;
  const LayerKind& kind = KindOf(*layer);
  if (!rest.starts_with(kExperts)) {
    const auto found = kind.index_of_name.find(rest);
    if (found == kind.index_of_name.end()) return std::nullopt;
    return first_slot_[*layer] + found->second;
  }
  rest.remove_prefix(kExperts.size());
  const auto expert = TakeNumber(rest);
  if (!expert || *expert >= experts_) return std::nullopt;
  const auto part = std::find(kind.expert_names.begin(), kind.expert_names.end(), rest);
  if (part == kind.expert_names.end()) return std::nullopt;
  return first_slot_[*layer] + kind.trunk.size() + *expert * kind.expert_names.size() +
         static_cast<size_t>(part - kind.expert_names.begin());
}

std::optional<size_t> TensorSlots::TrunkSlot(Role role, size_t layer) const {
  const auto index = static_cast<size_t>(role);
  if (model_.index_of_role[index] >= 0) return static_cast<size_t>(model_.index_of_role[index]);
  if (layer >= layers_ || KindOf(layer).index_of_role[index] < 0) return std::nullopt;
  return first_slot_[layer] + static_cast<size_t>(KindOf(layer).index_of_role[index]);
}

size_t TensorSlots::ExpertSlot(size_t layer, size_t expert, Role role, bool scales) const {
  const LayerKind& kind = KindOf(layer);
  const size_t matrix = static_cast<size_t>(role) - static_cast<size_t>(Role::kExpertGate);
  const size_t part = mxfp4_ ? matrix * 2 + (scales ? 1 : 0) : matrix;
  return first_slot_[layer] + kind.trunk.size() + expert * kind.expert_names.size() + part;
}

TensorSlots::Tensor TensorSlots::Describe(size_t slot) const {
  if (slot < model_.trunk.size()) return {&model_.trunk[slot], 0, 0, false};
  const auto after = std::upper_bound(first_slot_.begin(), first_slot_.end(), slot);
  const auto layer = static_cast<size_t>(after - first_slot_.begin()) - 1;
  const LayerKind& kind = KindOf(layer);
  const size_t index = slot - first_slot_[layer];
  if (index < kind.trunk.size()) return {&kind.trunk[index], layer, 0, false};
  const size_t part = (index - kind.trunk.size()) % kind.expert_names.size();
  const size_t expert = (index - kind.trunk.size()) / kind.expert_names.size();
  if (!mxfp4_) return {&kind.experts[part], layer, expert, false};
  return {&kind.experts[part / 2], layer, expert, part % 2 == 1};
}

std::string TensorSlots::Name(const Tensor& tensor) {
  std::string name(tensor.scales ? ScaleName(tensor.spec->role) : tensor.spec->name);
  Replace(name, "{L}", tensor.layer);
  Replace(name, "{E}", tensor.expert);
  return name;
}

}  // namespace kimi_k3
