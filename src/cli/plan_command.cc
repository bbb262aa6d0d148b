// The plan command: what would be in memory, what would be read, and how long it would take.
#include "cli/plan_command.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "checkpoint/checkpoint.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/plan_estimate.h"
#include "engine/engine_plan.h"
#include "kimi_k3/tokenizer.h"
#include "residency/memory_limits.h"
#include "residency/memory_plan.h"
#include "residency/stream_options.h"

namespace kimi_k3 {
namespace {

std::vector<std::string> FolderNames(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const std::filesystem::path& dir : checkpoint.model_dirs()) names.push_back(dir.string());
  return names;
}

void WriteJson(const PlanOptions& options, const Checkpoint& checkpoint, const MemoryPlan& plan,
               const std::string& budget_source, const std::optional<PlanEstimate>& estimate,
               std::ostream& out) {
  nlohmann::ordered_json json = PlanToJson(plan);
  if (const std::string part = DescribeModelPart(checkpoint.config()); !part.empty()) {
    json["part"] = part;
  }
  json["budget_source"] = budget_source;
  json["context"] = options.engine.context;
  json["sequences"] = options.engine.sequences;
  if (estimate) {
    json["drive"] = {{"bytes_per_second", estimate->read_bytes_per_second},
                     {"reading", estimate->drive.description}};
    json["multiply_bytes_per_second"] = estimate->weights_per_second_one_row;
    json["seconds_per_token"] = estimate->token_seconds;
    json["prompt"] = {{"tokens", options.prompt_tokens}, {"seconds", estimate->prompt_seconds}};
  }
  out << json.dump(2) << '\n';
}

void WriteTable(const PlanOptions& options, const Checkpoint& checkpoint, const MemoryPlan& plan,
                const std::string& budget_source, const std::optional<PlanEstimate>& estimate,
                std::ostream& out) {
  out << fmt::format(
      "{}: {} of weights, budget {} ({})\n", fmt::join(FolderNames(checkpoint), ", "),
      FormatByteSize(checkpoint.tensor_bytes()), FormatByteSize(plan.budget_bytes), budget_source);
  if (const std::string part = DescribeModelPart(checkpoint.config()); !part.empty()) {
    out << fmt::format("a part of the model, whose answers are not the model's: {}\n", part);
  }
  out << FormatPlan(plan);
  if (!estimate) return;
  out << fmt::format("drive: {}/s ({})\n",
                     FormatByteSize(static_cast<uint64_t>(estimate->read_bytes_per_second)),
                     estimate->drive.description)
      << fmt::format("multiplying: {}/s\n",
                     FormatByteSize(static_cast<uint64_t>(estimate->weights_per_second_one_row)))
      << fmt::format("expected: {} a token; {} for a prompt of {} token{}\n",
                     FormatEstimate(estimate->token_seconds),
                     FormatEstimate(estimate->prompt_seconds), options.prompt_tokens,
                     options.prompt_tokens == 1 ? "" : "s");
}

void AddOptions(CLI::App& command, PlanOptions& options) {
  FlagGroup group(command, "Plan");
  EngineOptions& engine = options.engine;
  AddModelFlags(group, engine)->required();
  group.Value(
      "--memory", "SIZE", "Budget, such as 8G; without it what the machine has to spare",
      [&engine](const std::string& text) { engine.memory_bytes = ReadSizeFlag("--memory", text); });
  group.Value("--expert-cache", "SIZE",
              "Memory for experts that stay; without it what the plan leaves",
              [&engine](const std::string& text) {
                engine.expert_cache_bytes = ReadSizeFlag("--expert-cache", text);
              });
  group.Count("-c,--context", "N", engine.context, "Positions of each sequence", 1);
  group.Count("--sequences", "N", engine.sequences, "Sequences that exist at once", 1, 65536);
  group.Count("--prompt-tokens", "N", options.prompt_tokens,
              "Length of the prompt whose time is estimated", 1);
  group.Count("--prompt-chunk", "N", engine.prompt_chunk,
              "Prompt positions computed in one pass over the weights; 0: as many as pay", 0,
              65536);
  group.Count("-t,--threads", "N", engine.threads, "Threads that compute; 0: one a physical core",
              0, 1024);
  group.Choice<KvCacheType>("--kv-cache-quant",
                            {{"none", KvCacheType::kF32}, {"bf16", KvCacheType::kBf16}},
                            engine.kv_cache, "Type of the latent cache: none is f32 (default)");
  group.Value("--io", "WAY", "How weights are read: auto, direct, buffered or mmap",
              [&engine](const std::string& text) {
                ParseIoMode(text);
                engine.io = text;
              });
  group.Switch("--json", options.json, "Write JSON");
  command.add_flag_callback(
      "--no-measure", [&options] { options.measure = false; },
      "Neither read the drive nor estimate times");
}

}  // namespace

void RunPlan(const PlanOptions& given, std::ostream& out) {
  const InterruptGuard interrupts;
  const Checkpoint checkpoint = OpenCheckpoint(given.engine);
  for (const std::string& warning : checkpoint.warnings()) std::cerr << warning << '\n';
  PlanOptions options = given;
  options.engine = ResolveOptions(given.engine, checkpoint.config());
  // As a run would hold it.
  const std::optional<Tokenizer> tokenizer = LoadTokenizer(options.engine, checkpoint.config());
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  std::string source = "--memory";
  if (!options.engine.memory_bytes) {
    const MemoryLimit limit = ReadMemoryLimit(resident);
    options.engine.memory_bytes = DefaultBudget(limit);
    source = fmt::format("85 % of the {} that {} leaves", FormatByteSize(limit.available_bytes),
                         limit.source);
  }
  const MemoryPlan plan =
      MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, options.engine, resident));
  InterruptGuard::Check();
  std::optional<PlanEstimate> estimate;
  if (options.measure) {
    estimate = EstimatePlan(checkpoint, plan, options.engine, options.prompt_tokens);
  }
  InterruptGuard::Check();
  if (options.json) {
    WriteJson(options, checkpoint, plan, source, estimate, out);
  } else {
    WriteTable(options, checkpoint, plan, source, estimate, out);
  }
  out.flush();
  if (!out) Fail(ErrorKind::kIo, "cannot write the plan");
}

void AddPlanCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "What a run would keep in memory, read, and how long it takes");
  const auto options = std::make_shared<PlanOptions>();
  AddOptions(*command, *options);
  command->callback([options] { RunPlan(*options, std::cout); });
}

}  // namespace kimi_k3
