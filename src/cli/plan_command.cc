// The plan command: what would be in memory, what would be read, and how long it would take.
#include "cli/plan_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "checkpoint/checkpoint.h"
#include "cli/batch_input.h"
#include "cli/batch_plan.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/plan_estimate.h"
#include "cli/shared_flags.h"
#include "cli/terminal_text.h"
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

// All that there is to tell.
struct Planned {
  const Checkpoint& checkpoint;
  MemoryPlan plan;
  MemoryLimit limit;
  std::string budget_source;
  std::string approximations;
  std::optional<PlanEstimate> estimate = {};
  std::vector<BatchChoice> batches = {};
  BatchRoom batch_room = {};
};

nlohmann::ordered_json BatchesToJson(const Planned& planned, bool with_states) {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const BatchChoice& choice : planned.batches) {
    nlohmann::ordered_json entry = {{"sequences", choice.sequences},
                                    {"memory_bytes", choice.plan.total_bytes},
                                    {"state_bytes", choice.state_bytes},
                                    {"bytes_per_pass", choice.bytes_per_pass},
                                    {"bytes_per_token", choice.bytes_per_token}};
    if (with_states) {
      entry["sequences_in_memory"] = choice.plan.sequences_in_memory;
      entry["state_dir_bytes"] = choice.state_dir_bytes;
      entry["states_read_per_pass"] = choice.states_read_per_pass;
      entry["states_written_per_pass"] = choice.states_written_per_pass;
    }
    if (planned.estimate) {
      entry["tokens_per_second"] = TokensPerSecond(planned.checkpoint, choice, *planned.estimate);
    }
    choices.push_back(std::move(entry));
  }
  nlohmann::ordered_json json = {{"recommended", RecommendedBatch(planned.batches).sequences}};
  if (planned.batch_room.state_dir_bytes) {
    json["state_dir_free_bytes"] = *planned.batch_room.state_dir_bytes;
  }
  json["choices"] = std::move(choices);
  return json;
}

void WriteJson(const PlanOptions& options, const Planned& planned, std::ostream& out) {
  nlohmann::ordered_json json = PlanToJson(planned.plan);
  if (const std::string part = DescribeModelPart(planned.checkpoint.config()); !part.empty()) {
    json["part"] = part;
  }
  if (!planned.approximations.empty()) json["approximations"] = planned.approximations;
  json["budget_source"] = planned.budget_source;
  json["available_bytes"] = planned.limit.available_bytes;
  json["context"] = options.engine.context;
  json["sequences"] = options.engine.sequences;
  if (const std::optional<PlanEstimate>& estimate = planned.estimate) {
    json["drive"] = {{"bytes_per_second", estimate->read_bytes_per_second},
                     {"reading", estimate->drive.description}};
    json["multiply_bytes_per_second"] = estimate->trunk.one_row;
    json["seconds_per_token"] = estimate->token_seconds;
    json["prompt"] = {{"tokens", options.prompt_tokens}, {"seconds", estimate->prompt_seconds}};
  }
  if (!planned.batches.empty()) {
    json["batch"] = BatchesToJson(planned, !options.engine.state_dir.empty());
  }
  out << json.dump(2) << '\n';
}

void WriteBatches(const Planned& planned, bool with_states, std::ostream& out) {
  out << fmt::format("batch, by sequences that share each pass:\n  {:>9}  {:>10}  {:>10}  {:>12}",
                     "sequences", "in memory", "states", "read a token")
      << (with_states ? fmt::format("  {:>7}  {:>10}  {:>13}", "on disk", "there", "wrote a token")
                      : "")
      << (planned.estimate ? "  tokens/s\n" : "\n");
  for (const BatchChoice& choice : planned.batches) {
    out << fmt::format("  {:>9}  {:>10}  {:>10}  {:>12}", choice.sequences,
                       FormatByteSize(choice.plan.total_bytes), FormatByteSize(choice.state_bytes),
                       FormatByteSize(choice.bytes_per_token));
    if (with_states) {
      out << fmt::format(
          "  {:>7}  {:>10}  {:>13}", choice.sequences - choice.plan.sequences_in_memory,
          FormatByteSize(choice.state_dir_bytes), FormatByteSize(choice.written_per_token));
    }
    if (planned.estimate) {
      out << fmt::format("  {:>8.3g}",
                         TokensPerSecond(planned.checkpoint, choice, *planned.estimate));
    }
    out << '\n';
  }
  out << fmt::format("recommended: {} (batch --parallel)\n",
                     RecommendedBatch(planned.batches).sequences);
}

void WriteTable(const PlanOptions& options, const Planned& planned, std::ostream& out) {
  const MemoryPlan& plan = planned.plan;
  out << fmt::format("{}: {} of weights, budget {} ({})\n",
                     fmt::join(FolderNames(planned.checkpoint), ", "),
                     FormatByteSize(planned.checkpoint.tensor_bytes()),
                     FormatByteSize(plan.budget_bytes), planned.budget_source);
  if (const std::string part = DescribeModelPart(planned.checkpoint.config()); !part.empty()) {
    out << fmt::format("a part of the model, whose answers are not the model's: {}\n", part);
  }
  if (!planned.approximations.empty()) {
    out << fmt::format("not the exact answers: {}\n", planned.approximations);
  }
  if (const std::string overlay = DescribeOverlay(planned.checkpoint); !overlay.empty()) {
    out << overlay << '\n';
  }
  out << FormatPlan(plan);
  if (plan.total_bytes > planned.limit.available_bytes) {
    out << fmt::format("this machine has only {} for it ({}) and would refuse to run\n",
                       FormatByteSize(planned.limit.available_bytes), planned.limit.source);
  }
  if (const std::optional<PlanEstimate>& estimate = planned.estimate) {
    out << fmt::format("drive: {}/s ({})\n",
                       FormatByteSize(static_cast<uint64_t>(estimate->read_bytes_per_second)),
                       estimate->drive.description)
        << fmt::format("multiplying: {}/s\n",
                       FormatByteSize(static_cast<uint64_t>(estimate->trunk.one_row)))
        << fmt::format("expected: {} a token; {} for a prompt of {} token{}\n",
                       FormatEstimate(estimate->token_seconds),
                       FormatEstimate(estimate->prompt_seconds), options.prompt_tokens,
                       options.prompt_tokens == 1 ? "" : "s");
  }
  if (!planned.batches.empty()) {
    WriteBatches(planned, !options.engine.state_dir.empty(), out);
  }
  if (const std::optional<uint64_t> room = planned.batch_room.state_dir_bytes) {
    out << fmt::format("{} has {} free\n", options.engine.state_dir.string(),
                       FormatByteSize(*room));
  }
}

void AddOptions(CLI::App& command, PlanOptions& options) {
  FlagGroup group(command, "Plan");
  EngineOptions& engine = options.engine;
  AddModelFlags(group, engine).Required();
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
  group.Count("--batch", "N", options.batch,
              "Also what batches of 1, 2, 4 ... N sequences cost, and how many to run at once", 1,
              65536);
  AddPathFlag(group, "--requests", "IN.jsonl", options.requests,
              "With --batch: count what these requests take");
  AddStateDirFlag(group, engine);
  group.Count("--prompt-tokens", "N", options.prompt_tokens,
              "Length of the prompt whose time is estimated", 1);
  group.Count("--prompt-chunk", "N", engine.prompt_chunk,
              "Prompt positions computed in one pass over the weights; 0: as many as pay", 0,
              65536);
  group.Count("-t,--threads", "N", engine.threads, "Threads that compute; 0: one a physical core",
              0, 1024);
  AddApproximationFlags(group, engine);
  group.Value("--io", "WAY", "How weights are read: auto, direct, buffered or mmap",
              [&engine](const std::string& text) {
                ParseIoMode(text);
                engine.io = text;
              });
  group.Switch("--json", options.json, "Write JSON");
  group.Switch("--no-measure", options.no_measure, "Neither read the drive nor estimate times");
}

void CheckPlanOptions(const PlanOptions& options) {
  if (options.batch > 0) return;
  if (!options.engine.state_dir.empty()) {
    Fail(ErrorKind::kUsage,
         "--state-dir: only the texts of a batch may have their states on disk; "
         "give --batch N too");
  }
  if (options.requests)
    Fail(ErrorKind::kUsage, "--requests: are those of a batch; give --batch N too");
}

// The very plans that batch makes of these flags.
void AddBatches(const PlanOptions& options, Planned& planned) {
  std::optional<BatchInput> requests;  // in memory while that is looked at, as batch has them
  if (options.requests) requests.emplace(*options.requests, "");
  const BatchDemand demand = requests ? requests->demand() : BatchDemand{};
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  planned.batch_room = BatchRoomOf(options.engine, resident + kBatchProcessBytes);
  planned.batches = PlanBatches(planned.checkpoint, OptionsForBatch(options.engine, demand),
                                planned.batch_room, options.batch);
}

}  // namespace

void RunPlan(const PlanOptions& given, std::ostream& out) {
  CheckPlanOptions(given);
  const InterruptGuard interrupts;
  const Checkpoint checkpoint = OpenCheckpoint(given.engine);
  for (const std::string& warning : checkpoint.warnings()) {
    std::cerr << TextFor(STDERR_FILENO, warning) << '\n';
  }
  PlanOptions options = given;
  options.engine = ResolveOptions(given.engine, checkpoint.config());
  // As a run would hold it.
  const std::optional<Tokenizer> tokenizer = LoadTokenizer(options.engine, checkpoint.config());
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  const MemoryLimit limit = ReadMemoryLimit(resident);
  std::string source = "--memory";
  if (!options.engine.memory_bytes) {
    options.engine.memory_bytes = DefaultBudget(limit);
    source = fmt::format("85 % of the {} that {} leaves", FormatByteSize(limit.available_bytes),
                         limit.source);
  }
  Planned planned = {.checkpoint = checkpoint,
                     .plan = {},
                     .limit = limit,
                     .budget_source = source,
                     .approximations = DescribeApproximations(options.engine, checkpoint)};
  // First, as it needs more memory: what a refusal names is then enough for all.
  if (options.batch > 0) AddBatches(options, planned);
  planned.plan = MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, options.engine, resident));
  InterruptGuard::Check();
  if (!options.no_measure) {
    planned.estimate =
        EstimatePlan(checkpoint, planned.plan, options.engine, options.prompt_tokens);
  }
  InterruptGuard::Check();
  if (options.json) {
    WriteJson(options, planned, out);
  } else {
    WriteTable(options, planned, out);
  }
  out.flush();
  if (!out) Fail(ErrorKind::kIo, "cannot write the plan");
}

void AddPlanCommand(CLI::App& app) {
  CLI::App& command =
      AddCommand(app, "plan", "What a run would keep in memory, read, and how long it takes");
  const auto options = std::make_shared<PlanOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunPlan(*options, std::cout); });
}

}  // namespace kimi_k3
