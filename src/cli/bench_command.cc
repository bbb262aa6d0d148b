// The bench command: how fast this machine runs this model, and what bounds it.
#include "cli/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process_meter.h"
#include "checkpoint/checkpoint.h"
#include "cli/bench_report.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/progress.h"
#include "cli/result_file.h"
#include "cli/terminal_text.h"
#include "engine/engine_plan.h"
#include "engine/machine_speed.h"
#include "kimi_k3/generation.h"
#include "residency/drive_probe.h"
#include "residency/memory_plan.h"
#include "residency/pass_schedule.h"
#include "residency/stream_options.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kReportBytes = 64 << 10;  // a report is smaller than this

// Ids spread over the vocabulary, so that rows choose different experts; the same in every run.
std::vector<TokenId> PromptOf(size_t length, size_t vocabulary) {
  std::vector<TokenId> ids(length);
  for (size_t i = 0; i < length; ++i) {
    ids[i] = static_cast<TokenId>((i + 1) * 2654435761U % vocabulary);
  }
  return ids;
}

// One engine of one budget on its way through the prompts.
class BudgetBench {
 public:
  BudgetBench(const BenchOptions& options, Engine& engine, std::ostream& notes)
      : options_(options), engine_(engine), sequence_(engine.NewSequence()), notes_(notes) {}

  Json Run() {
    Json prompts = Json::array();
    for (const size_t length : options_.prompts) {
      Note(fmt::format("prompt of {}", length));
      const double seconds = Prompt(length);
      prompts.push_back({{"tokens", length}, {"seconds", seconds}});
      Note(fmt::format("prompt of {}: {:.3g} s", length, seconds));
    }
    Json run = Decode();
    run["prompts"] = std::move(prompts);
    return run;
  }

 private:
  void Note(const std::string& text) {
    if (options_.quiet) return;
    notes_ << fmt::format("budget {}: {}\n", FormatByteSize(engine_.memory_budget_bytes()), text)
           << std::flush;
  }

  // Seconds until the first token after a prompt of this length is known.
  double Prompt(size_t length) {
    sequence_.Reset();
    const auto start = Clock::now();
    Continue(PromptOf(length, engine_.vocabulary()), 1, [] {});
    return SecondsSince(start);
  }

  Json Decode() {
    sequence_.Reset();
    Note(fmt::format("decoding {}", options_.tokens));
    Clock::time_point start;
    EngineCounters before;
    bool first = true;
    Continue(PromptOf(1, engine_.vocabulary()), options_.tokens + 1, [&] {
      if (!first) return;
      first = false;
      start = Clock::now();
      before = engine_.counters();
    });
    const double seconds = SecondsSince(start);
    const EngineCounters after = engine_.counters();
    const auto bytes = static_cast<double>(after.bytes_read() - before.bytes_read());
    const auto tokens = static_cast<double>(options_.tokens);
    Note(fmt::format("{:.3g} s a token", seconds / tokens));
    return {{"memory_budget_bytes", engine_.memory_budget_bytes()},
            {"seconds_per_token", seconds / tokens},
            {"bytes_per_token", static_cast<uint64_t>(bytes / tokens)},
            {"drive_bytes_per_second", bytes / seconds},
            {"compute_waited_share",
             (after.compute_waited_seconds - before.compute_waited_seconds) / seconds}};
  }

  void Continue(const std::vector<TokenId>& prompt, size_t tokens,
                const std::function<void()>& on_token) {
    const GenerationOptions generation = {
        .max_tokens = tokens, .sampling = {.temperature = 0}, .ignore_eos = true};
    const GenerationResult result = Generate(engine_, sequence_, prompt, generation, [&](TokenId) {
      on_token();
      return true;
    });
    if (result.reason == StopReason::kInterrupted) Fail(ErrorKind::kInterrupted, "interrupted");
  }

  const BenchOptions& options_;
  Engine& engine_;
  Sequence sequence_;
  std::ostream& notes_;
};

// The options of each engine to try; throws Error(kBudget) for a budget that is too small, before
// anything is measured.
std::vector<EngineOptions> EnginesToTry(const BenchOptions& options, const Checkpoint& checkpoint) {
  std::vector<std::optional<uint64_t>> budgets(options.budgets.begin(), options.budgets.end());
  if (budgets.empty()) budgets.emplace_back();
  std::vector<EngineOptions> engines;
  for (const auto& budget : budgets) {
    EngineOptions& engine = engines.emplace_back(options.engine);
    engine.memory_bytes = budget;
    engine.context =
        *std::max_element(options.prompts.begin(), options.prompts.end()) + options.tokens + 1;
    const EngineOptions resolved = ResolveOptions(engine, checkpoint.config());
    MakeMemoryPlan(checkpoint,
                   MakePlanRequest(checkpoint, resolved, ReadProcessMeters().resident_bytes));
  }
  return engines;
}

Json MeasureParts(const BenchOptions& options, const Checkpoint& checkpoint, std::ostream& notes) {
  if (!options.quiet) notes << "measuring the drive, the memory and the processor\n" << std::flush;
  const EngineOptions resolved = ResolveOptions(options.engine, checkpoint.config());
  IoOptions io;
  io.mode = ParseIoMode(resolved.io);
  const DriveSpeed drive = MeasureDrive(checkpoint, io, PassSchedule::kDefaultTileBytes,
                                        std::chrono::milliseconds(1000));
  const MachineSpeed machine = MeasureMachine(resolved.threads);
  Json products = Json::array();
  for (const ProductSpeed& product : machine.products) {
    products.push_back({{"weights", product.weights},
                        {"rows", product.rows},
                        {"unit", product.unit},
                        {"speed", product.speed},
                        {"limit", product.limit}});
  }
  return {{"drive", {{"bytes_per_second", drive.bytes_per_second}, {"reading", drive.description}}},
          {"memory", {{"read_bytes_per_second", machine.read_bytes_per_second}}},
          {"processor",
           {{"isa", machine.isa},
            {"threads", machine.threads},
            {"multiply_adds_per_second", machine.multiply_adds_per_second}}},
          {"products", std::move(products)}};
}

// What was opened, in one line, but for the budget: a report has several.
std::string WithoutBudget(const Engine& engine) {
  std::string text = engine.Description();
  const std::string budget =
      fmt::format("budget {}; ", FormatByteSize(engine.memory_budget_bytes()));
  const size_t at = text.find(budget);
  return at == std::string::npos ? text : text.erase(at, budget.size());
}

Json Measure(const BenchOptions& options, std::ostream& notes) {
  const InterruptGuard guard;
  std::optional<Checkpoint> checkpoint = OpenCheckpoint(options.engine);
  for (const std::string& warning : checkpoint->warnings()) {
    notes << TextFor(STDERR_FILENO, warning) << std::endl;
  }
  const std::vector<EngineOptions> engines = EnginesToTry(options, *checkpoint);
  const std::string approximations =
      DescribeApproximations(ResolveOptions(options.engine, checkpoint->config()), *checkpoint);
  const Json parts = MeasureParts(options, *checkpoint, notes);
  checkpoint.reset();  // each engine opens it anew, as a run would
  Json runs = Json::array();
  std::string model;
  for (const EngineOptions& engine_options : engines) {
    InterruptGuard::Check();
    Engine engine = Engine::Open(engine_options);
    const EngineInterrupt interrupt(engine);
    if (model.empty()) model = WithoutBudget(engine);
    runs.push_back(BudgetBench(options, engine, notes).Run());
  }
  Json report = {{"model", model}};
  if (!approximations.empty()) report["approximations"] = approximations;
  report.update(parts);
  report["runs"] = std::move(runs);
  return report;
}

Json ReadRecorded(const std::filesystem::path& path) {
  const std::string text = ReadWholeFile(path, kReportBytes);
  Json report = Json::parse(text, nullptr, false);
  if (report.is_discarded()) Fail(ErrorKind::kUsage, "--from: {}: is not JSON", path.string());
  return report;
}

void WriteWhole(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.Append(text);
  file.Commit();
}

void AddOptions(CLI::App& command, BenchOptions& options) {
  FlagGroup model(command, "Model");
  AddModelFlags(model, options.engine);
  AddApproximationFlags(model, options.engine);
  model.Count("-t,--threads", "N", options.engine.threads,
              "Threads that compute; 0: one a physical core", 0, 1024);
  model.Value("--io", "WAY", "How weights are read: auto, direct, buffered or mmap",
              [&options](const std::string& text) {
                ParseIoMode(text);
                options.engine.io = text;
              });
  FlagGroup group(command, "Bench");
  group.Value("--memory", "SIZE,...",
              "Budgets to try, such as 2G,8G; without it what the machine has to spare",
              [&options](const std::string& text) {
                std::istringstream parts(text);
                for (std::string part; std::getline(parts, part, ',');) {
                  options.budgets.push_back(ReadSizeFlag("--memory", part));
                }
              });
  group.Value("--prompts", "N,...", "Lengths of prompts to try (default: 1,16,64,256)",
              [&options](const std::string& text) {
                options.prompts.clear();
                std::istringstream parts(text);
                for (std::string part; std::getline(parts, part, ',');) {
                  options.prompts.push_back(ParseCount("--prompts", part, 1, 1 << 20));
                }
                if (options.prompts.empty()) Fail(ErrorKind::kUsage, "--prompts: no length given");
              });
  group.Count("-n,--predict", "N", options.tokens, "Tokens to decode for each budget", 1, 65536);
  const auto file = [&group](const char* flag, const char* help,
                             std::optional<std::filesystem::path>& target) {
    group.Value(flag, "FILE", help, [&target](const std::string& text) { target = text; });
  };
  file("--json", "Write the report as JSON", options.json_file);
  file("--svg", "Write the report as a picture", options.svg_file);
  file("--from", "Show or draw a report written with --json, and measure nothing",
       options.from_file);
  group.Switch("-q,--quiet", options.quiet, "Do not say what is being measured");
}

}  // namespace

void RunBench(const BenchOptions& options, std::ostream& out, std::ostream& notes) {
  const std::vector<std::filesystem::path> folders = ModelFolders(options.engine);
  if (options.json_file) KeepModelWhole("--json", *options.json_file, folders);
  if (options.svg_file) KeepModelWhole("--svg", *options.svg_file, folders);
  if (options.json_file) CheckResultFile("--json", *options.json_file, kReportBytes);
  if (options.svg_file) CheckResultFile("--svg", *options.svg_file, kReportBytes);
  const Json report =
      options.from_file ? ReadRecorded(*options.from_file) : Measure(options, notes);
  if (options.json_file) WriteWhole(*options.json_file, report.dump(2) + "\n");
  out << FormatBenchReport(report) << std::flush;
  if (options.svg_file) WriteWhole(*options.svg_file, DrawBenchReport(report));
  if (!out) Fail(ErrorKind::kIo, "cannot write the report");
}

void AddBenchCommand(CLI::App& app) {
  CLI::App& command =
      AddCommand(app, "bench", "How fast this machine runs a model, and what bounds it");
  const auto options = std::make_shared<BenchOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] {
    if (options->from_file.has_value() == !options->engine.model_dir.empty()) {
      Fail(ErrorKind::kUsage, "bench needs a model (-m DIR) or a report (--from FILE)");
    }
    if (options->from_file && HasApproximations(options->engine)) {
      Fail(ErrorKind::kUsage,
           "--from shows what was measured before: give no --kv-cache-quant, --state-type, "
           "--experts-per-token or --overlay with it");
    }
    RunBench(*options, std::cout, std::cerr);
  });
}

}  // namespace kimi_k3
