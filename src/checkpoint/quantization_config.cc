// The one way of quantisation that is read: MXFP4 experts as the published checkpoint packs them.
#include "checkpoint/quantization_config.h"

#include <string>

#include "checkpoint/config_fields.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kGroupSize = 32;
constexpr uint64_t kBits = 4;
constexpr uint64_t kAnyNumber = UINT64_MAX;

void RequireText(ConfigFields& fields, std::string_view name, std::string_view wanted,
                 Presence presence) {
  const auto text = fields.Text(name, presence);
  if (text && *text != wanted) {
    fields.Refuse(name,
                  fmt::format("is \"{}\"; only \"{}\" is supported", Printable(*text, 60), wanted));
  }
}

void RequireSize(ConfigFields& fields, std::string_view name, uint64_t wanted) {
  const auto size = fields.Size(name, {0, kAnyNumber}, Presence::kRequired);
  if (size && *size != wanted) {
    fields.Refuse(name, fmt::format("is {}; only {} is supported", *size, wanted));
  }
}

void RequireFlag(ConfigFields& fields, std::string_view name, bool wanted, Presence presence) {
  const auto flag = fields.Flag(name, presence);
  if (flag && *flag != wanted) {
    fields.Refuse(name, fmt::format("is {}; only {} is supported", *flag, wanted));
  }
}

// A feature that is off where the field is absent, null or false.
void RequireOff(ConfigFields& fields, const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  if (found->is_boolean() && !found->get<bool>()) return;
  fields.Refuse(name, fmt::format("is {}; only null is supported", JsonExcerpt(*found)));
}

void CheckWeights(const nlohmann::json& object, std::string_view source, const std::string& path,
                  ProblemList& problems) {
  ConfigFields fields(object, source, path, problems);
  RequireSize(fields, "num_bits", kBits);
  RequireSize(fields, "group_size", kGroupSize);
  RequireText(fields, "type", "float", Presence::kRequired);
  RequireText(fields, "strategy", "group", Presence::kRequired);
  RequireFlag(fields, "symmetric", true, Presence::kOptional);
  RequireFlag(fields, "dynamic", false, Presence::kOptional);
  RequireText(fields, "scale_dtype", "torch.uint8", Presence::kOptional);
  RequireOff(fields, object, "actorder");
  RequireOff(fields, object, "block_structure");
  RequireOff(fields, object, "zp_dtype");
}

void CheckGroup(const nlohmann::json& object, std::string_view source, const std::string& path,
                ProblemList& problems) {
  if (!object.is_object()) {
    problems.Add("{}: {} is {}; it must be an object", source, path, JsonExcerpt(object));
    return;
  }
  ConfigFields fields(object, source, path, problems);
  RequireText(fields, "format", kMxfp4Format, Presence::kOptional);
  RequireOff(fields, object, "input_activations");
  RequireOff(fields, object, "output_activations");
  if (const auto* weights = fields.Object("weights", Presence::kRequired)) {
    CheckWeights(*weights, source, fields.Path("weights"), problems);
  }
}

}  // namespace

void CheckQuantizationConfig(const nlohmann::json& object, std::string_view source,
                             std::string_view path, ProblemList& problems) {
  ConfigFields fields(object, source, path, problems);
  RequireText(fields, "quant_method", "compressed-tensors", Presence::kRequired);
  RequireText(fields, "format", kMxfp4Format, Presence::kRequired);
  RequireText(fields, "quantization_status", "compressed", Presence::kOptional);
  RequireOff(fields, object, "kv_cache_scheme");
  const nlohmann::json* groups = fields.Object("config_groups", Presence::kRequired);
  if (groups == nullptr) return;
  if (groups->empty()) fields.Refuse("config_groups", "is empty; it must describe one group");
  for (const auto& [name, group] : groups->items()) {
    CheckGroup(group, source, fmt::format("{}.{}", fields.Path("config_groups"), Printable(name)),
               problems);
  }
}

}  // namespace kimi_k3
