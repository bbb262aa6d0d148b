// What a checkpoint holds, added up: tensors by role, bytes by layer, reads of a token, memory.
#include "cli/inspect_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/process_meter.h"
#include "checkpoint/problem_list.h"
#include "engine/engine_plan.h"

namespace kimi_k3 {
namespace {

constexpr size_t kScaleRows = kRoleCount;       // roles of scales follow the roles
constexpr size_t kIgnoredRow = kRoleCount * 2;  // then what is ignored
constexpr uint64_t kAnyBudget = uint64_t{1} << 60;

ByteGroup GroupOf(Role role) {
  if (role == Role::kEmbedding || role == Role::kHead) return ByteGroup::kEmbeddingAndHead;
  if (role >= Role::kKdaQ && role <= Role::kKdaO) return ByteGroup::kKda;
  if (role >= Role::kMlaQA && role <= Role::kMlaO) return ByteGroup::kMla;
  if (role >= Role::kDenseGate && role <= Role::kDenseDown) return ByteGroup::kDense;
  if (IsExpertRole(role)) return ByteGroup::kExperts;
  if (role >= Role::kRouter && role <= Role::kLatentUp) return ByteGroup::kShared;
  return ByteGroup::kSmall;
}

uint64_t Elements(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  return count;
}

class Adder {
 public:
  Adder(const TensorListing& listing, InspectReport& report)
      : config_(listing.checkpoint().config()), report_(report), rows_(kRoleCount * 2 + 1) {
    report_.layers.resize(config_.layers + 2);
    for (size_t layer = 0; layer < config_.layers; ++layer) {
      report_.layers[layer].name = fmt::to_string(layer);
    }
    report_.layers[config_.layers].name = "head";
    report_.layers[config_.layers + 1].name = "vision";
  }

  void Add(const ListedTensor& tensor) {
    ++report_.tensors;
    report_.bytes += tensor.bytes;
    size_t row = kIgnoredRow;
    size_t layer = config_.layers + 1;
    ByteGroup group = ByteGroup::kIgnored;
    uint64_t parameters = Elements(tensor.shape);
    if (tensor.meaning) {
      const TensorSpec& spec = *tensor.meaning->spec;
      row = static_cast<size_t>(spec.role) + (tensor.meaning->scales ? kScaleRows : 0);
      group = GroupOf(spec.role);
      const bool once = spec.role <= Role::kHead;
      layer = once ? config_.layers : tensor.meaning->layer;
      if (spec.kind == TensorKind::kExpert) {
        parameters = tensor.meaning->scales ? 0 : uint64_t{spec.rows} * spec.columns;
        if (tensor.meaning->expert == 0 && expert_layer_ == kNoLayer) expert_layer_ = layer;
        if (tensor.meaning->expert == 0 && layer == expert_layer_) {
          report_.expert_bytes += tensor.bytes;
          expert_parameters_ += parameters;
        }
      } else if (spec.kind != TensorKind::kEmbedding) {
        report_.parameters_per_token += parameters;
      }
    }
    report_.parameters += parameters;
    rows_[row].tensors += 1;
    rows_[row].bytes += tensor.bytes;
    rows_[row].parameters += parameters;
    rows_[row].group = group;
    report_.layers[layer].bytes[static_cast<size_t>(group)] += tensor.bytes;
  }

  void Finish() {
    for (size_t role = 0; role < kRoleCount; ++role) {
      Take(role, std::string(RoleName(static_cast<Role>(role))));
      Take(role + kScaleRows, fmt::format("{} scales", RoleName(static_cast<Role>(role))));
    }
    Take(kIgnoredRow, "vision (not used)");
    report_.parameters_per_token +=
        expert_parameters_ * config_.moe_layers() * config_.moe.experts_per_token;
  }

 private:
  static constexpr size_t kNoLayer = SIZE_MAX;

  void Take(size_t row, std::string name) {
    if (rows_[row].tensors == 0) return;
    rows_[row].name = std::move(name);
    report_.roles.push_back(rows_[row]);
  }

  const ModelConfig& config_;
  InspectReport& report_;
  std::vector<RoleTotal> rows_;
  size_t expert_layer_ = kNoLayer;
  uint64_t expert_parameters_ = 0;
};

MemoryPlan FloorOf(const Checkpoint& checkpoint, size_t& context) {
  EngineOptions options;
  options.threads = 1;
  options.memory_bytes = kAnyBudget;
  options = ResolveOptions(options, checkpoint.config());
  context = options.context;
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  options.memory_bytes =
      MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, options, resident)).smallest_bytes;
  return MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, options, resident));
}

std::string Plural(uint64_t count, const std::string& one, const std::string& more) {
  return fmt::format("{} {}", Grouped(count), count == 1 ? one : more);
}

uint64_t BytesWithOverlay(const InspectReport& report) {
  return report.bytes - report.overlay->replaced_bytes + report.overlay->bytes;
}

std::string FormatOverlay(const InspectReport& report) {
  const OverlayInUse& overlay = *report.overlay;
  return fmt::format(
      "\nwith {} ({}:{}): {} take {} in place of {}, {} in all; {}\n", overlay.folder.string(),
      overlay.trunk, overlay.fingerprint, Plural(overlay.matrices, "matrix", "matrices"),
      FormatByteSize(overlay.bytes), FormatByteSize(overlay.replaced_bytes),
      FormatByteSize(BytesWithOverlay(report)),
      overlay.exact ? "the answers stay the model's" : "the answers are not the model's");
}

double Share(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

nlohmann::ordered_json OverlayJson(const InspectReport& report) {
  const OverlayInUse& overlay = *report.overlay;
  return {{"folder", overlay.folder.string()},
          {"trunk", overlay.trunk},
          {"fingerprint", overlay.fingerprint},
          {"exact", overlay.exact},
          {"matrices", overlay.matrices},
          {"bytes", overlay.bytes},
          {"replaced_bytes", overlay.replaced_bytes},
          {"bytes_in_all", BytesWithOverlay(report)}};
}

std::string FormatGeometry(const ModelConfig& c) {
  std::string text = fmt::format("geometry: hidden {}, vocabulary {}, {}", c.hidden, c.vocabulary,
                                 c.activation == Activation::kSitu ? "situ" : "silu");
  if (c.max_positions != 0) text += fmt::format(", up to {} positions", Grouped(c.max_positions));
  if (c.attn_res_block != 0) {
    text += fmt::format(", attention residuals in blocks of {} layers", c.attn_res_block);
  }
  text +=
      fmt::format("\n  KDA: {} heads of {}, {} taps", c.kda.heads, c.kda.head_dim, c.kda.conv_taps);
  text += fmt::format("\n  MLA: {} heads, {} + {} key, {} value, latent {}, query rank {}",
                      c.mla.heads, c.mla.qk_nope_head_dim, c.mla.qk_rope_head_dim, c.mla.v_head_dim,
                      c.mla.kv_lora_rank, c.mla.q_lora_rank);
  if (c.moe.experts != 0) {
    text +=
        fmt::format("\n  experts: {} a layer, {} per token, width {}, in {}, {} shared, {}",
                    c.moe.experts, c.moe.experts_per_token, c.moe.expert_intermediate,
                    c.expert_width(), c.moe.shared_experts, c.mxfp4_experts ? "MXFP4" : "unpacked");
  }
  return text + "\n";
}

std::string FormatLayers(const InspectReport& report) {
  const ModelConfig& config = *report.config;
  std::vector<size_t> mla;
  for (size_t layer = 0; layer < config.layers; ++layer) {
    if (config.IsMla(layer)) mla.push_back(layer);
  }
  return fmt::format("layers: {}: {} KDA and {} MLA ({}); {} dense and {} mixture of experts\n",
                     config.layers, report.kda_layers, report.mla_layers, fmt::join(mla, " "),
                     report.dense_layers, report.moe_layers);
}

}  // namespace

std::string_view GroupName(ByteGroup group) {
  constexpr std::array<std::string_view, kByteGroups> kNames = {
      "embedding and head", "KDA attention",  "MLA attention",       "dense MLP",
      "shared and latent",  "routed experts", "norms and residuals", "vision (not used)"};
  return kNames[static_cast<size_t>(group)];
}

InspectReport MakeInspectReport(const TensorListing& listing, const Checkpoint* with_overlay) {
  InspectReport report;
  const Checkpoint& checkpoint = listing.checkpoint();
  const ModelConfig& config = checkpoint.config();
  report.folders = checkpoint.model_dirs();
  report.config = &config;
  report.files = listing.files();
  report.missing = listing.missing();
  for (size_t layer = 0; layer < config.layers; ++layer) {
    ++(config.IsMla(layer) ? report.mla_layers : report.kda_layers);
    ++(config.IsDense(layer) ? report.dense_layers : report.moe_layers);
  }
  report.routed_experts = uint64_t{report.moe_layers} * config.moe.experts;
  Adder adder(listing, report);
  listing.Visit([&](const ListedTensor& tensor) { adder.Add(tensor); });
  adder.Finish();
  report.floor = FloorOf(with_overlay != nullptr ? *with_overlay : checkpoint, report.context);
  if (with_overlay != nullptr) report.overlay = with_overlay->overlay();
  return report;
}

std::string FormatReport(const InspectReport& report) {
  std::vector<std::string> folders;
  for (const auto& folder : report.folders) folders.push_back(folder.string());
  const std::string kind =
      report.config->model_type.empty() ? "model" : Printable(report.config->model_type);
  std::string text =
      fmt::format("{}: {}, {} parameters, {} of them per token\n{} ({} bytes) in {}, {}\n",
                  fmt::join(folders, ", "), kind, FormatParameters(report.parameters),
                  FormatParameters(report.parameters_per_token), FormatByteSize(report.bytes),
                  Grouped(report.bytes), Plural(report.tensors, "tensor", "tensors"),
                  Plural(report.files, "file", "files"));
  if (!report.missing.empty()) {
    text += fmt::format(
        "{} not there ({}{}): their tensors are told as the published format has them\n",
        report.missing.size() == 1 ? "1 file is"
                                   : fmt::format("{} files are", report.missing.size()),
        report.missing.front(), report.missing.size() == 1 ? "" : " ...");
  }
  text += FormatGeometry(*report.config) + FormatLayers(report);
  if (report.routed_experts > 0) {
    text += fmt::format("routed experts: {}, {} each\n", Grouped(report.routed_experts),
                        FormatByteSize(report.expert_bytes));
  }
  text += fmt::format("\n  {:<26}{:>9}{:>12}{:>9}\n", "role", "tensors", "bytes", "share");
  for (size_t group = 0; group < kByteGroups; ++group) {
    RoleTotal sum;
    for (const RoleTotal& role : report.roles) {
      if (static_cast<size_t>(role.group) != group) continue;
      sum.tensors += role.tensors;
      sum.bytes += role.bytes;
    }
    if (sum.tensors == 0) continue;
    const auto line = [&](const std::string& name, const RoleTotal& row) {
      text += fmt::format("  {:<26}{:>9}{:>12}{:>8.2f}%\n", name, Grouped(row.tensors),
                          FormatByteSize(row.bytes), 100 * Share(row.bytes, report.bytes));
    };
    line(std::string(GroupName(static_cast<ByteGroup>(group))), sum);
    if (static_cast<ByteGroup>(group) == ByteGroup::kIgnored) continue;
    for (const RoleTotal& role : report.roles) {
      if (static_cast<size_t>(role.group) == group) line("  " + role.name, role);
    }
  }
  text += report.overlay ? FormatOverlay(report) : "\n";
  const MemoryPlan& floor = report.floor;
  text += fmt::format(
      "read per token: {} (trunk {}, experts {}, head {}, embedding {})\n"
      "memory: at least {} for one text of {} positions (kimi_k3 plan says what more would buy)\n",
      FormatByteSize(floor.bytes_per_token()), FormatByteSize(floor.trunk_bytes_per_token),
      FormatByteSize(floor.expert_bytes_per_token), FormatByteSize(floor.head_bytes_per_token),
      FormatByteSize(floor.embedding_bytes_per_token), FormatByteSize(floor.smallest_bytes),
      report.context);
  return text;
}

nlohmann::ordered_json ReportToJson(const InspectReport& report) {
  const ModelConfig& c = *report.config;
  nlohmann::ordered_json roles = nlohmann::ordered_json::array();
  for (const RoleTotal& role : report.roles) {
    roles.push_back({{"role", role.name},
                     {"group", GroupName(role.group)},
                     {"tensors", role.tensors},
                     {"bytes", role.bytes},
                     {"share", Share(role.bytes, report.bytes)},
                     {"parameters", role.parameters}});
  }
  nlohmann::ordered_json folders = nlohmann::ordered_json::array();
  for (const auto& folder : report.folders) folders.push_back(folder.string());
  const nlohmann::ordered_json plan = PlanToJson(report.floor);
  nlohmann::ordered_json json = {
      {"folders", folders},
      {"model_type", c.model_type},
      {"files", report.files},
      {"missing_files", report.missing},
      {"tensors", report.tensors},
      {"bytes", report.bytes},
      {"parameters", report.parameters},
      {"parameters_per_token", report.parameters_per_token},
      {"geometry",
       {{"hidden", c.hidden},
        {"vocabulary", c.vocabulary},
        {"max_positions", c.max_positions},
        {"attention_residual_block", c.attn_res_block},
        {"dense_intermediate", c.dense_intermediate},
        {"kda", {{"heads", c.kda.heads}, {"head_dim", c.kda.head_dim}, {"taps", c.kda.conv_taps}}},
        {"mla",
         {{"heads", c.mla.heads},
          {"q_lora_rank", c.mla.q_lora_rank},
          {"kv_lora_rank", c.mla.kv_lora_rank},
          {"qk_nope_head_dim", c.mla.qk_nope_head_dim},
          {"qk_rope_head_dim", c.mla.qk_rope_head_dim},
          {"v_head_dim", c.mla.v_head_dim}}},
        {"moe",
         {{"experts", c.moe.experts},
          {"experts_per_token", c.moe.experts_per_token},
          {"shared_experts", c.moe.shared_experts},
          {"expert_intermediate", c.moe.expert_intermediate},
          {"expert_width", c.expert_width()},
          {"mxfp4", c.mxfp4_experts}}}}},
      {"layers",
       {{"all", c.layers},
        {"kda", report.kda_layers},
        {"mla", report.mla_layers},
        {"dense", report.dense_layers},
        {"moe", report.moe_layers}}},
      {"routed_experts", report.routed_experts},
      {"expert_bytes", report.expert_bytes},
      {"roles", roles},
      {"read_per_token", plan["read_per_token"]},
      {"memory_floor",
       {{"bytes", report.floor.smallest_bytes},
        {"context", report.context},
        {"items", plan["items"]}}}};
  if (report.overlay) json["overlay"] = OverlayJson(report);
  return json;
}

std::string Grouped(uint64_t number) {
  std::string text = fmt::to_string(number);
  for (size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string FormatParameters(uint64_t count) {
  constexpr std::array<std::pair<double, char>, 4> kUnits = {
      {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  for (const auto& [size, unit] : kUnits) {
    const double value = static_cast<double>(count) / size;
    if (value >= 1) return fmt::format("{:.3g} {}", value, unit);
  }
  return fmt::to_string(count);
}

}  // namespace kimi_k3
