// The synth command: writes a checkpoint of random weights in the published format.
#include "cli/synth_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/byte_size.h"
#include "base/error.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/synth.h"
#include "checkpoint/untrusted_file.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTinyShards = 3;

std::string ConfigText(const SynthCommandOptions& options) {
  if (!options.config_file) {
    return GeometryConfig(options.geometry.value_or("tiny"), options.changes);
  }
  if (options.geometry) {
    Fail(ErrorKind::kUsage, "--config and --geometry both say what to make; give one of them");
  }
  const std::string text = ReadTextFile(*options.config_file, kConfigBytesLimit);
  return ChangeConfig(text, *options.config_file, options.changes);
}

uint64_t ShardCount(const SynthCommandOptions& options) {
  if (options.shards) return *options.shards;
  const bool tiny = !options.config_file && options.geometry.value_or("tiny") == "tiny";
  return tiny && !options.sparse ? kTinyShards : 0;
}

std::string StatusLine(const SynthProgress& progress, double seconds) {
  const double rate = static_cast<double>(progress.bytes_done) / std::max(seconds, 1e-3);
  const double left =
      static_cast<double>(progress.bytes_total - progress.bytes_done) / std::max(rate, 1.0);
  return fmt::format("writing: {} of {}, shard {} of {}, {}/s, {} left",
                     FormatByteSize(progress.bytes_done), FormatByteSize(progress.bytes_total),
                     std::min(progress.shards_done + 1, progress.shards_total),
                     progress.shards_total, FormatByteSize(static_cast<uint64_t>(rate)),
                     FormatDuration(left));
}

void AddOptions(CLI::App& command, SynthCommandOptions& options) {
  FlagGroup group(command, "Synth");
  group
      .Value("-o,--output", "DIR", "Folder to write; made where it is not there",
             [&options](const std::string& text) {
               if (text.empty()) Fail(ErrorKind::kUsage, "-o,--output: the folder's name is empty");
               options.output = text;
             })
      .Required();
  group.Text("--geometry", "k3|tiny", options.geometry, "Sizes to use (default: tiny)");
  group.Text("--config", "FILE", options.config_file,
             "A config.json to use in place of a geometry");
  const auto change = [&group](const std::string& name, std::optional<size_t>& target,
                               uint64_t most, const std::string& help) {
    group.Value(name, "N", help, [name, most, &target](const std::string& text) {
      target = ParseCount(name, text, 1, most);
    });
  };
  change("--layers", options.changes.layers, 10'000,
         "Number of layers; every fourth and the last two are MLA");
  change("--experts", options.changes.experts, 65'536, "Number of routed experts");
  change("--vocab", options.changes.vocabulary, 1 << 24, "Size of the vocabulary");
  group.Value("--tokenizer", "DIR", "Folder to copy the tokenizer's files from",
              [&options](const std::string& text) { options.tokenizer = text; });
  group.Count("--seed", "N", options.seed, "The weights follow from it and the config alone");
  group.Value("--shards", "N",
              "Files for the weights; 1: without an index (default: 3 for tiny, else one a layer)",
              [&options](const std::string& text) {
                options.shards = ParseCount("--shards", text, 1, 65'534);
              });
  group.Switch("--sparse", options.sparse,
               "Real headers and offsets, but holes for data: all weights zero, little disk used");
  group.Switch("--force", options.force, "Replace a checkpoint that is there");
  group.Switch("--quiet", options.quiet, "Say nothing but errors");
}

}  // namespace

void RunSynth(const SynthCommandOptions& options) {
  const InterruptGuard interrupt;
  Output output(options.quiet);
  SynthOptions synth;
  synth.config_json = ConfigText(options);
  synth.output = options.output;
  synth.tokenizer = options.tokenizer;
  synth.seed = options.seed;
  synth.shards = ShardCount(options);
  synth.sparse = options.sparse;
  synth.force = options.force;
  const Clock::time_point start = Clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  synth.progress = [&](const SynthProgress& progress) {
    InterruptGuard::Check();
    if (output.WantsStatus()) output.Status(StatusLine(progress, seconds()));
  };
  const SynthReport report = WriteSynthCheckpoint(synth);
  output.ClearStatus();
  output.Note(fmt::format("{}: {} tensors, {} of weights{}, {} {}, {}", options.output.string(),
                          report.tensors, FormatByteSize(report.tensor_bytes),
                          options.sparse ? " (holes)" : "", report.shards,
                          report.shards == 1 ? "file" : "files", FormatDuration(seconds())));
}

void AddSynthCommand(CLI::App& app) {
  CLI::App& command = AddCommand(
      app, "synth", "Write a checkpoint of random weights in the published format, for trials");
  const auto options = std::make_shared<SynthCommandOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunSynth(*options); });
}

}  // namespace kimi_k3
