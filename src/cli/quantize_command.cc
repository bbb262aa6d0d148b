// The quantize command: makes an overlay of a checkpoint, and goes on where it was stopped.
#include "cli/quantize_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/overlay_record.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/output.h"
#include "cli/transfer_line.h"
#include "engine/engine_plan.h"
#include "fetch/verify.h"
#include "overlay/overlay_writer.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMostQuantizeThreads = 1024;

void AddOptions(CLI::App& command, QuantizeOptions& options) {
  FlagGroup group(command, "Quantize");
  AddModelFlags(
      group, options.engine,
      "Take only the matrices of a part of the model, such as layers=0-11, where only its "
      "shards are there; the same command without it adds the rest later")
      .Required();
  group
      .Value("--trunk", "q8|q4|lossless",
             "How matrices are stored: 8 or 4 bits a weight, or the same numbers in fewer bytes",
             [&options](const std::string& text) {
               options.form = OverlayFormNamed(text);
               if (options.form) return;
               Fail(ErrorKind::kUsage, "--trunk: \"{}\" is not one of q8, q4, lossless", text);
             })
      .Required();
  group
      .Value("-o,--output", "DIR", "Folder of the overlay; made where it is not there",
             [&options](const std::string& text) {
               if (text.empty()) Fail(ErrorKind::kUsage, "-o,--output: the folder's name is empty");
               options.output = text;
             })
      .Required();
  group.Texts("--only", "PATTERN", options.only,
              "Take only matrices whose names match, such as '*.self_attn.*' (may be repeated)");
  group.Texts("--except", "PATTERN", options.except,
              "Leave out matrices whose names match, such as '*lm_head*' (may be repeated)");
  group.Count("-t,--threads", "N", options.threads, "Threads; 0: one a physical core", 0,
              kMostQuantizeThreads);
  group.Switch("--json", options.json, "Write JSON");
  group.Switch("-q,--quiet", options.quiet, "Nothing on standard error but errors and warnings");
}

double RatioOf(uint64_t bytes, uint64_t base_bytes) {
  return base_bytes == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(base_bytes);
}

std::string ToTable(const OverlayReport& report) {
  std::string text = fmt::format("{:<20} {:>8} {:>10} {:>10} {:>7} {:>9}\n", "matrix", "count",
                                 "model", "overlay", "ratio", "error");
  for (const OverlayRoleReport& role : report.roles) {
    if (role.matrices > 0) {
      text +=
          fmt::format("{:<20} {:>8} {:>10} {:>10} {:>7.3f} {:>8.3f}%\n", RoleName(role.role),
                      role.matrices, FormatByteSize(role.base_bytes), FormatByteSize(role.bytes),
                      RatioOf(role.bytes, role.base_bytes), 100 * role.error);
    }
    if (role.left > 0) {
      text += fmt::format("{:<20} {:>8} left as they are: too little would be gained\n",
                          RoleName(role.role), role.left);
    }
  }
  return text + fmt::format("{:<20} {:>8} {:>10} {:>10} {:>7.3f}\n", "in all", report.matrices,
                            FormatByteSize(report.base_bytes), FormatByteSize(report.bytes),
                            RatioOf(report.bytes, report.base_bytes));
}

std::string ToJson(const OverlayReport& report, const QuantizeOptions& options) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::array();
  for (const OverlayRoleReport& role : report.roles) {
    roles.push_back({{"matrix", RoleName(role.role)},
                     {"count", role.matrices},
                     {"left", role.left},
                     {"model_bytes", role.base_bytes},
                     {"overlay_bytes", role.bytes},
                     {"relative_error", role.error}});
  }
  const nlohmann::ordered_json json = {{"trunk", OverlayFormName(*options.form)},
                                       {"fingerprint", report.fingerprint},
                                       {"files", report.files},
                                       {"matrices", report.matrices},
                                       {"model_bytes", report.base_bytes},
                                       {"overlay_bytes", report.bytes},
                                       {"roles", std::move(roles)}};
  return json.dump(2) + "\n";
}

// What a shard lacks would go into the overlay unnoticed, and from there into every answer.
void RefuseDamagedShards(const EngineOptions& engine) {
  VerifyOptions options;
  options.folders = {engine.model_dir};
  options.folders.insert(options.folders.end(), engine.more_model_dirs.begin(),
                         engine.more_model_dirs.end());
  options.quick = true;
  options.stop = &InterruptGuard::Flag();
  for (const FileFinding& file : VerifyCheckpoint(options).files) {
    if (file.state != FileState::kBad || file.path.extension() != ".safetensors") continue;
    Fail(ErrorKind::kCheckpoint,
         "{}. No overlay is made from it (holes that are meant can be filled: cp --sparse=never)",
         file.problems.empty() ? file.path.string() + ": is damaged" : file.problems.front());
  }
}

}  // namespace

void RunQuantize(const QuantizeOptions& options) {
  const InterruptGuard interrupt;
  Output output(options.quiet);
  const Checkpoint checkpoint = OpenCheckpoint(options.engine);
  for (const std::string& warning : checkpoint.warnings()) output.Warning(warning);
  RefuseDamagedShards(options.engine);
  OverlayOptions overlay;
  overlay.output = *options.output;
  overlay.form = *options.form;
  overlay.only = options.only;
  overlay.except = options.except;
  overlay.threads = options.threads == 0 ? UsableCores() : options.threads;
  overlay.stop = &InterruptGuard::Flag();
  TransferRate rate;
  bool begun = false;
  overlay.progress = [&](const OverlayProgress& now) {
    begun = true;
    const double speed = rate.Update(now.bytes_done);
    if (!output.WantsStatus()) return;
    output.Status(fmt::format("quantizing: {}, {} of {} files",
                              TransferText(now.bytes_done, now.bytes_total, speed), now.files_done,
                              now.files_total));
  };
  OverlayReport report;
  try {
    report = WriteOverlay(checkpoint, overlay);
  } catch (const Error& error) {
    output.ClearStatus();
    if (begun && (error.kind() == ErrorKind::kInterrupted || error.kind() == ErrorKind::kIo)) {
      output.Note("what is done stays: the same command goes on from there");
    }
    throw;
  }
  output.ClearStatus();
  if (report.files_before > 0) {
    output.Note(fmt::format(
        "{} of {} files were there already (sizes compared; kimi_k3 verify -m {} --overlay {} "
        "reads "
        "them whole)",
        report.files_before, report.files, options.engine.model_dir.string(), *options.output));
  }
  output.Text(options.json ? ToJson(report, options) : ToTable(report));
  output.Note(fmt::format("use it with --overlay {}", *options.output));
}

void AddQuantizeCommand(CLI::App& app) {
  CLI::App& command = AddCommand(
      app, "quantize", "Make an overlay: the model's matrices in fewer bytes, beside the model");
  const auto options = std::make_shared<QuantizeOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunQuantize(*options); });
}

}  // namespace kimi_k3
