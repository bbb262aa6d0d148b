// What a checkpoint holds, added up: tensors by role, bytes by layer, reads of a token, memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_listing.h"
#include "residency/memory_plan.h"

namespace kimi_k3 {

// What bytes are for, coarser than roles.
enum class ByteGroup : uint8_t {
  kEmbeddingAndHead,
  kKda,
  kMla,
  kDense,
  kShared,  // shared experts, latent projections, router
  kExperts,
  kSmall,  // norms and attention residuals
  kIgnored
};
inline constexpr size_t kByteGroups = static_cast<size_t>(ByteGroup::kIgnored) + 1;
std::string_view GroupName(ByteGroup group);

struct RoleTotal {
  std::string name;  // a RoleName, with " scales" for scales; "vision" for what is ignored
  ByteGroup group = ByteGroup::kIgnored;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
};

// Bytes of one layer, or of what occurs once a model, by group.
struct LayerBytes {
  std::string name;  // "0" to "92", "head", "vision"
  std::array<uint64_t, kByteGroups> bytes{};
};

struct InspectReport {
  std::vector<std::filesystem::path> folders;
  const ModelConfig* config = nullptr;  // of the listing
  size_t files = 0;
  std::vector<std::string> missing;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t parameters = 0;            // MXFP4 weights counted one by one, scales not at all
  uint64_t parameters_per_token = 0;  // that a token is multiplied with
  size_t kda_layers = 0, mla_layers = 0, dense_layers = 0, moe_layers = 0;
  uint64_t routed_experts = 0;
  uint64_t expert_bytes = 0;  // of one
  std::vector<RoleTotal> roles;
  std::vector<LayerBytes> layers;
  size_t context = 0;
  MemoryPlan floor;  // the plan of the smallest budget that can do, with the overlay
  // In place of some of the bytes above, which are the checkpoint's own.
  std::optional<OverlayInUse> overlay;
};

// Adds up. with_overlay: the same checkpoint with an overlay in use; null: there is none. `listing`
// must outlive the report. Throws as TensorListing::Visit does.
InspectReport MakeInspectReport(const TensorListing& listing,
                                const Checkpoint* with_overlay = nullptr);

std::string FormatReport(const InspectReport& report);
nlohmann::ordered_json ReportToJson(const InspectReport& report);

// 1234567 as "1,234,567".
std::string Grouped(uint64_t number);
// "2.78 T", "104 B", "7.71 M".
std::string FormatParameters(uint64_t count);

}  // namespace kimi_k3
