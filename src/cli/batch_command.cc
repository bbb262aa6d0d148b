// The batch command: a file of requests, answered together.
#include "cli/batch_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "cli/batch_flags.h"
#include "cli/batch_input.h"
#include "cli/batch_journal.h"
#include "cli/batch_output.h"
#include "cli/batch_plan.h"
#include "cli/batch_run.h"
#include "cli/batch_stats.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_name.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "engine/engine_plan.h"
#include "engine/model_fingerprint.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"
#include "residency/memory_limits.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMostSequences = 65536;

struct BatchOptions {
  EngineOptions engine;
  BatchRunOptions run;
  std::optional<std::string> input, output, model_name;
  std::optional<std::filesystem::path> stats_file;
  size_t sequences = 0;  // 0: as RecommendedBatch has it
  bool quiet = false;
};

void AddOptions(CLI::App& command, BatchOptions& options) {
  FlagGroup group(command, "Batch");
  group.Text("REQUESTS", "IN.jsonl", options.input,
             "Requests, one a line, as OpenAI's batches have them");
  group.Text("-o,--output", "FILE", options.output,
             "Results, one a line; a file that is there already is gone on with");
  group.Count("--parallel", "N", options.sequences,
              "Requests computed together; without it as many as read least for a token", 1,
              kMostSequences);
  AddStateDirFlag(group, options.engine);
  group.Text("--model-name", "NAME", options.model_name,
             "What requests call the model; without it the folder's name");
  AddPathFlag(group, "--stats", "FILE.json", options.stats_file,
              "Write times, tokens and bytes of the run as JSON");
  group.Switch("-q,--quiet", options.quiet, "Nothing on standard error but errors and warnings");
  FlagGroup generation(command, "Generation");
  ServerOptions& defaults = options.run.defaults;
  generation.Number("--temp", "T", defaults.temperature, "Temperature of requests that name none");
  generation.Number("--top-p", "P", defaults.top_p, "Top-p of requests that name none");
  generation.Count("--seed", "N", options.run.seed,
                   "Seed that those of requests without one are made from, and their names");
  generation.Count("--max-tokens", "N", defaults.most_answer_tokens,
                   "Tokens of an answer at the most; 0: as many as the context has room for");
  AddEngineFlags(command, options.engine);
}

void CheckOptions(const BatchOptions& options) {
  if (options.engine.model_dir.empty()) {
    Fail(ErrorKind::kUsage, "which model? Give the checkpoint's folder with -m DIR");
  }
  if (!options.input || options.input->empty()) {
    Fail(ErrorKind::kUsage, "which requests? kimi_k3 batch IN.jsonl -o OUT.jsonl");
  }
  if (*options.input == "-") {
    Fail(ErrorKind::kUsage,
         "requests cannot come from standard input: a job that was stopped reads them again; "
         "write them to a file");
  }
  if (!options.output || options.output->empty()) {
    Fail(ErrorKind::kUsage, "where should results go? Name a file with -o");
  }
  SamplingOptions sampling;
  sampling.temperature = options.run.defaults.temperature;
  sampling.top_p = options.run.defaults.top_p;
  CheckSamplingOptions(sampling);
}

// All that answers depend on besides their requests.
BatchFlags FlagsOf(const BatchOptions& options, const Checkpoint& checkpoint) {
  const ServerOptions& defaults = options.run.defaults;
  BatchFlags flags = {{"the model", ModelFingerprint(checkpoint)},
                      {"-c", fmt::format("{}", options.engine.context)},
                      {"--model-name", defaults.model_name},
                      {"--temp", fmt::format("{}", defaults.temperature)},
                      {"--top-p", fmt::format("{}", defaults.top_p)},
                      {"--seed", fmt::format("{}", options.run.seed)},
                      {"--max-tokens", fmt::format("{}", defaults.most_answer_tokens)}};
  std::istringstream words(DescribeApproximations(options.engine, checkpoint));
  for (std::string flag, value; words >> flag >> value;) flags[flag] = value;
  return flags;
}

// The same as the ids of requests are made with.
std::string SettingsOf(const BatchOptions& options, const Checkpoint& checkpoint,
                       const BatchFlags& flags) {
  const std::string approximations = DescribeApproximations(options.engine, checkpoint);
  return fmt::format(
      "model {} cache {} context {} name {} temperature {} top-p {} seed {} tokens {}{}",
      flags.at("the model"), static_cast<int>(options.engine.kv_cache), flags.at("-c"),
      flags.at("--model-name"), flags.at("--temp"), flags.at("--top-p"), flags.at("--seed"),
      flags.at("--max-tokens"), approximations.empty() ? "" : " " + approximations);
}

// With as many sequences as are asked for; else as many as are recommended and, the process having
// grown a little since, have room.
Engine OpenEngine(BatchOptions& options, size_t recommended) {
  size_t sequences = options.sequences != 0 ? options.sequences : recommended;
  while (true) {
    options.engine.sequences = sequences;
    options.run.sequences = sequences;
    try {
      return Engine::Open(options.engine);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBudget || options.sequences != 0 || sequences == 1) throw;
    }
    --sequences;
  }
}

size_t Recommend(const Checkpoint& checkpoint, const EngineOptions& options, size_t most) {
  const std::optional<Tokenizer> tokenizer = LoadTokenizer(options, checkpoint.config());
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  const BatchRoom room = BatchRoomOf(options, resident);
  return RecommendedBatch(PlanBatches(checkpoint, options, room, most)).sequences;
}

void TellWhatIsThere(const BatchOutput& results, const BatchJournal& journal, Output& output) {
  if (results.cut_bytes() > 0) {
    output.Note(fmt::format("{}: a last line of {} that was not written to its end is cut off",
                            results.path().string(), FormatByteSize(results.cut_bytes())));
  }
  if (results.removed() > 0) {
    output.Note(fmt::format(
        "{}: removed {} line{} that said why {} refused: {} since then corrected or taken out",
        results.path().string(), results.removed(), results.removed() == 1 ? "" : "s",
        results.removed() == 1 ? "a request was" : "requests were",
        results.removed() == 1 ? "it was" : "they were"));
  }
  if (results.results() == 0 && journal.begun() == 0) return;
  output.Note(fmt::format("{}: {}, {} begun", results.path().string(), results.Standing(),
                          journal.begun()));
}

void TellWhatIsToDo(const Engine& engine, const BatchOptions& options, size_t missing,
                    Output& output) {
  output.Note(engine.Description());
  for (const std::string& warning : engine.warnings()) output.Warning(warning);
  output.Note(fmt::format("{} request{} to go, up to {} at once", missing, missing == 1 ? "" : "s",
                          options.run.sequences));
  if (engine.sequences_on_disk() == 0) return;
  output.Note(
      fmt::format("the states of {} of them live in {} and take {} there; every pass writes them, "
                  "which wears a "
                  "drive: how much is shown",
                  engine.sequences_on_disk(), options.engine.state_dir.string(),
                  FormatByteSize(engine.state_dir_bytes())));
}

// However it ends, the statistics are written.
void Execute(BatchRun& run, const Engine& engine,
             const std::optional<std::filesystem::path>& stats_file) {
  const auto write = [&](const char* reason, const char* error) {
    if (stats_file) WriteBatchStats(*stats_file, engine, run.Totals(), reason, error);
  };
  try {
    run.Execute();
  } catch (const Error& error) {
    write(error.kind() == ErrorKind::kInterrupted ? "interrupted" : "failed", error.what());
    throw;
  }
  write("done", "");
}

// Answers what has no result yet. The checkpoint is given back before the engine opens it.
void AnswerMissing(BatchOptions& options, std::optional<Checkpoint>& checkpoint,
                   const BatchInput& input, BatchOutput& results, BatchJournal& journal,
                   Output& output) {
  const size_t missing = input.lines().size() - results.results();
  options.engine = OptionsForBatch(options.engine, input.demand());
  size_t recommended = 1;
  if (options.sequences == 0) {
    recommended = Recommend(*checkpoint, options.engine, std::min(missing, kUsualMostSequences));
  }
  checkpoint.reset();
  Engine engine = OpenEngine(options, recommended);
  results.Keep();
  options.run.defaults.approximations = engine.approximations();
  TellWhatIsToDo(engine, options, missing, output);
  BatchRun run(engine, input, results, journal, options.run, output);
  Execute(run, engine, options.stats_file);
}

ExitCode RunBatch(BatchOptions& options) {
  CheckOptions(options);
  const InterruptGuard interrupts;
  Output output(options.quiet);
  options.run.defaults.model_name =
      options.model_name.value_or(ModelNameOf(options.engine.model_dir));
  std::optional<Checkpoint> checkpoint = OpenCheckpoint(options.engine);
  options.engine = ResolveOptions(options.engine, checkpoint->config());
  const BatchFlags flags = FlagsOf(options, *checkpoint);
  const std::optional<BatchFlags> then = BatchJournal::FlagsOf(*options.output);
  std::optional<std::string> changed;
  if (then) changed = ChangedBatchFlags(*then, flags);
  const BatchInput input(*options.input, SettingsOf(options, *checkpoint, flags));
  BatchOutput results(*options.output, input, changed);
  BatchJournal journal(input, results, flags);
  TellWhatIsThere(results, journal, output);
  if (input.lines().empty()) {
    output.Warning(
        fmt::format("{}: has no request, so {} has no result", *options.input, *options.output));
  }
  if (results.results() == input.lines().size()) {
    results.Keep();
    journal.Remove();
  } else {
    AnswerMissing(options, checkpoint, input, results, journal, output);
  }
  if (results.unanswered() == 0) return kExitDone;
  output.Problem(fmt::format("{} of {} requests could not be answered; {} says why",
                             results.unanswered(), input.lines().size(), results.path().string()));
  return kExitRunFailed;
}

}  // namespace

void AddBatchCommand(CLI::App& app, ExitCode& code) {
  CLI::App& command = AddCommand(app, "batch", "Answer a file of requests, many at a time");
  const auto options = std::make_shared<BatchOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options, &code] { code = RunBatch(*options); });
}

}  // namespace kimi_k3
