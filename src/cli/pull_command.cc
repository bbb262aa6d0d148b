// The pull command: downloads a checkpoint, or the part of one, and goes on where it was stopped.
#include "cli/pull_command.h"

#include <fmt/format.h>

#include <bit>
#include <memory>

#include "base/byte_size.h"
#include "base/error.h"
#include "checkpoint/model_part.h"
#include "cli/flag_group.h"
#include "cli/inspect_report.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/transfer_line.h"
#include "fetch/pull.h"

namespace kimi_k3 {
namespace {

uint64_t ParseBlock(const std::string& text) {
  constexpr uint64_t kLeast = uint64_t{4} << 10;
  constexpr uint64_t kMost = uint64_t{64} << 20;
  const uint64_t bytes = ParseByteSize(text);
  if (bytes < kLeast || bytes > kMost || !std::has_single_bit(bytes)) {
    Fail(ErrorKind::kUsage, "--block: {} is not a power of two from 4KiB to 64MiB", text);
  }
  return bytes;
}

void AddOptions(CLI::App& command, PullCommandOptions& options) {
  FlagGroup group(command, "Pull");
  group
      .Value("REPO", "OWNER/NAME[@REVISION]",
             "The repository, such as moonshotai/Kimi-K3; REVISION: branch, tag or commit",
             [&options](const std::string& text) { options.repository = text; })
      .Required();
  group.Text("-o,--output", "DIR", options.output,
             "Folder to fill; without it NAME in the current folder");
  group.Value("--shard", "PART",
              "Fetch only what a part of the model needs, such as layers=0-11,experts=0-63",
              [&options](const std::string& text) {
                ParseModelPart(text);
                options.part = text;
              });
  group.Switch("--dry-run", options.dry_run, "Say what would be fetched, and change nothing");
  group.Count("--connections", "N", options.connections, "Connections at once", 1, 64);
  group.Value("--block", "SIZE",
              "Unit of what is remembered; an interruption costs a connection one at the most; a "
              "power of two from 4KiB to 64MiB (default: 1MiB)",
              [&options](const std::string& text) { options.block_bytes = ParseBlock(text); });
  group.Count("--retries", "N", options.retries, "Tries in a row without progress before giving up",
              0, 100000);
  group.Count("--stall", "SECONDS", options.stall_seconds,
              "A connection that is silent for so long is begun anew", 1, 3600);
  group.Switch("-q,--quiet", options.quiet, "Nothing on standard error but errors");
}

std::string DefaultFolder(const std::string& repository) {
  return repository.substr(repository.rfind('/') + 1);
}

void TellDryRun(const PullReport& report, const std::string& folder, Output& output) {
  for (const RemoteFile& file : report.listing) {
    output.Text(fmt::format("{:>10}  {}{}\n", FormatByteSize(file.bytes), file.name,
                            file.hash ? "" : "  (no hash is promised)"));
  }
  output.Note(fmt::format("commit {}: {} files, {}, of which {} would be fetched into {}",
                          report.commit, report.files, FormatByteSize(report.bytes),
                          FormatByteSize(report.bytes_missing), folder));
}

}  // namespace

void RunPull(const PullCommandOptions& given) {
  PullOptions pull;
  pull.address = ParseRepository(given.repository);
  pull.part = given.part;
  pull.dry_run = given.dry_run;
  const std::string folder = given.output.value_or(DefaultFolder(pull.address.repository));
  if (folder.empty()) Fail(ErrorKind::kUsage, "-o,--output: the folder's name is empty");
  const InterruptGuard interrupt;
  Output output(given.quiet);
  pull.download.folder = folder;
  pull.download.connections = given.connections;
  pull.download.block_bytes = given.block_bytes;
  pull.download.retries = static_cast<unsigned>(given.retries);
  pull.download.http.stall_time = std::chrono::seconds(given.stall_seconds);
  pull.download.http.stop = &InterruptGuard::Flag();
  TransferRate rate;
  pull.download.progress = [&](const DownloadProgress& now) {
    const double speed = rate.Update(now.bytes_fetched);
    if (!output.WantsStatus()) return;
    output.Status(fmt::format("pulling: {}, {} of {} files{}{}",
                              TransferText(now.bytes_done, now.bytes_total, speed), now.files_done,
                              now.files_total, now.trouble.empty() ? "" : "; ", now.trouble));
  };
  pull.download.note = [&](const std::string& text) { output.Note(text); };
  const PullReport report = Pull(pull);
  output.ClearStatus();
  if (given.dry_run) {
    TellDryRun(report, folder, output);
    return;
  }
  output.Note(fmt::format("{}: {} at commit {}: {}; {} fetched now{}", folder,
                          pull.address.repository, report.commit, FormatByteSize(report.bytes),
                          FormatByteSize(report.bytes_fetched),
                          given.part.empty() ? ", every file compared with its hash" : ""));
  if (report.unhashed > 0 && given.part.empty()) {
    output.Note(fmt::format("{} of the files had no hash to compare with", report.unhashed));
  }
  if (!given.part.empty()) {
    output.Note(
        "what there is of the shards cannot be compared with their hashes, which are of whole "
        "files: kimi_k3 verify finds what changes on this disk, not what the server sent wrong");
    output.Note(fmt::format("a part of the model: run it with --shard {}", given.part));
  }
}

void AddPullCommand(CLI::App& app) {
  CLI::App& command =
      AddCommand(app, "pull", "Download a checkpoint, and go on where a download was stopped");
  const auto options = std::make_shared<PullCommandOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunPull(*options); });
}

}  // namespace kimi_k3
