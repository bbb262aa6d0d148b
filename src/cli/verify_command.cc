// The verify command: is the checkpoint whole, and what can be done where it is not.
#include "cli/verify_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_size.h"
#include "base/error.h"
#include "checkpoint/model_folders.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/output.h"
#include "cli/transfer_line.h"
#include "fetch/manifest.h"
#include "fetch/pull.h"
#include "fetch/verify.h"
#include "fetch/verify_memory.h"
#include "kimi_k3/tokenizer.h"
#include "overlay/overlay_check.h"

namespace kimi_k3 {
namespace {

constexpr const char* kStateNames[] = {"good", "bad", "missing", "unreadable"};

// What is wrong with the tokenizer that a run would load; empty: nothing, or there is none. What
// cannot be read at all is told of by those who read every file.
std::string TokenizerProblem(std::span<const std::filesystem::path> folders) {
  const std::filesystem::path& folder = FolderWith(folders, kTokenizerName);
  if (!HasEntry(folder, kTokenizerName)) return {};
  try {
    Tokenizer::Load(folder);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) return error.what();
  }
  return {};
}

VerifyReport Verify(const VerifyCommandOptions& options, Output& output) {
  TransferRate rate;
  const auto progress = [&](const VerifyProgress& now) {
    const double speed = rate.Update(now.bytes_done);
    if (!output.WantsStatus()) return;
    output.Status(fmt::format("verifying: {}, {} of {} files",
                              TransferText(now.bytes_done, now.bytes_total, speed), now.files_done,
                              now.files_total));
  };
  if (options.overlay) {
    VerifyReport report = CheckOverlay({.base_folders = options.folders,
                                        .overlay = *options.overlay,
                                        .quick = options.quick,
                                        .stop = &InterruptGuard::Flag(),
                                        .progress = progress});
    output.ClearStatus();
    return report;
  }
  VerifyOptions verify;
  verify.folders = options.folders;
  if (options.hash_list) verify.hash_list = *options.hash_list;
  verify.quick = options.quick;
  verify.write_hashes = options.write_hashes;
  verify.go_on = options.go_on;
  verify.further_problems = [&options] { return TokenizerProblem(options.folders); };
  verify.stop = &InterruptGuard::Flag();
  verify.progress = progress;
  try {
    VerifyReport report = VerifyCheckpoint(verify);
    output.ClearStatus();
    return report;
  } catch (const Error& error) {
    output.ClearStatus();
    if (error.kind() == ErrorKind::kInterrupted && VerifyMemory::Exists(options.folders.front())) {
      output.Note("kimi_k3 verify --continue goes on with what is not verified yet");
    }
    throw;
  }
}

std::string ToJson(const VerifyReport& report) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const FileFinding& file : report.files) {
    files.push_back({{"name", file.name},
                     {"path", file.path.string()},
                     {"state", kStateNames[static_cast<size_t>(file.state)]},
                     {"hashed", file.hashed},
                     {"problems", file.problems}});
  }
  const nlohmann::ordered_json json = {{"good", report.good()},
                                       {"bytes_read", report.bytes_read},
                                       {"problems", report.problems},
                                       {"files", files}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string ToText(const VerifyReport& report, const VerifyCommandOptions& options) {
  std::string text;
  for (const FileFinding& file : report.files) {
    for (const std::string& problem : file.problems) text += problem + "\n";
  }
  for (const std::string& problem : report.problems) text += problem + "\n";
  const size_t bad = report.bad();
  const auto hashed = static_cast<size_t>(
      std::ranges::count_if(report.files, [](const FileFinding& f) { return f.hashed; }));
  const size_t files = report.files.size();
  const std::string count = fmt::format("{} file{}", files, files == 1 ? "" : "s");
  if (!report.good()) {
    return text + (bad > 0           ? fmt::format("{} of {} not good\n", bad, count)
                   : options.overlay ? "the overlay cannot be used\n"
                                     : "the checkpoint is not whole\n");
  }
  if (options.quick) {
    return text + fmt::format("{}: sizes and headers are good (contents were not read)\n", count);
  }
  text += fmt::format("{} good, {} read; {} compared with a known hash\n", count,
                      FormatByteSize(report.bytes_read),
                      hashed == files ? "all"
                      : hashed == 0   ? "none"
                                      : fmt::to_string(hashed));
  if (hashed < files && !options.write_hashes) {
    text +=
        "files without a known hash: headers add up and every number is one, which does not prove "
        "that they are what was published\n";
  }
  return text;
}

// Fetches what is bad again, of each folder that was pulled.
void Repair(const VerifyReport& report, const VerifyCommandOptions& options, Output& output) {
  for (const std::filesystem::path& folder : options.folders) {
    const auto manifest = Manifest::Load(folder);
    std::vector<std::string> bad;
    for (const FileFinding& file : report.files) {
      if (file.state != FileState::kGood && file.path == folder / file.name) {
        bad.push_back(file.name);
      }
    }
    if (bad.empty()) continue;
    if (!manifest || manifest->repository.empty()) {
      Fail(ErrorKind::kCheckpoint,
           "{}: cannot be repaired, as nothing says where it came from: kimi_k3 pull REPO -o {} "
           "fetches what is bad, and remembers",
           folder.string(), folder.string());
    }
    PullOptions pull;
    const std::string& revision = manifest->commit.empty() ? manifest->revision : manifest->commit;
    pull.address = ParseRepository(manifest->repository + "@" + revision);
    // A token is for the server that the user names, not for one that a file names.
    if (!manifest->endpoint.empty() && manifest->endpoint != pull.address.endpoint) {
      Fail(ErrorKind::kUsage, "{}: came from {}; set HF_ENDPOINT to that to repair it",
           folder.string(), manifest->endpoint);
    }
    PrepareRepair(folder, bad);
    TransferRate rate;
    pull.part = manifest->part;
    pull.download.folder = folder;
    pull.download.http.stop = &InterruptGuard::Flag();
    pull.download.note = [&](const std::string& text) { output.Note(text); };
    pull.download.progress = [&](const DownloadProgress& now) {
      const double speed = rate.Update(now.bytes_fetched);
      if (!output.WantsStatus()) return;
      output.Status("repairing: " + TransferText(now.bytes_done, now.bytes_total, speed));
    };
    const PullReport pulled = Pull(pull);
    output.ClearStatus();
    output.Note(fmt::format("{}: {} file{} repaired, {} fetched", folder.string(), bad.size(),
                            bad.size() == 1 ? "" : "s", FormatByteSize(pulled.bytes_fetched)));
  }
}

void AddOptions(CLI::App& command, VerifyCommandOptions& options) {
  FlagGroup group(command, "Verify");
  AddFolders(group, options.folders);
  group.Text(
      "--overlay", "DIR", options.overlay,
      "Verify this overlay, and that it was made from the checkpoint, whose own contents are "
      "not read");
  group.Switch("--quick", options.quick, "Compare sizes and headers alone; contents are not read");
  group.Text("--hashes", "FILE", options.hash_list,
             "Compare with the hashes in this file, as sha256sum writes it");
  group.Switch("--write-hashes", options.write_hashes,
               "Remember the hashes of what is good, for the next time");
  group.Switch("--repair", options.repair, "Fetch what is bad again (of a folder that was pulled)");
  group.Switch("--continue", options.go_on,
               "Leave out what an interrupted verification has found good");
  group.Switch("--json", options.json, "Write JSON");
  group.Switch("-q,--quiet", options.quiet, "Nothing but errors: the exit code tells");
}

void CheckOptions(const VerifyCommandOptions& options) {
  if (options.quick && (options.write_hashes || options.go_on)) {
    Fail(ErrorKind::kUsage,
         "--quick reads no contents, which --write-hashes and --continue are "
         "about: give one");
  }
  if (options.overlay &&
      (options.hash_list || options.write_hashes || options.repair || options.go_on)) {
    Fail(ErrorKind::kUsage,
         "--overlay verifies an overlay against its own record; --hashes, --write-hashes, --repair "
         "and --continue are for checkpoints");
  }
}

}  // namespace

ExitCode RunVerify(const VerifyCommandOptions& options) {
  CheckOptions(options);
  const InterruptGuard interrupt;
  Output output(options.quiet);
  VerifyReport report = Verify(options, output);
  if (!report.good() && options.repair) {
    if (!options.json && !options.quiet) output.Text(ToText(report, options));
    Repair(report, options, output);
    report = Verify(options, output);
  }
  if (options.json) {
    output.Text(ToJson(report));
  } else if (!options.quiet || !report.good()) {
    output.Text(ToText(report, options));
  }
  if (report.unreadable()) return kExitIo;
  return report.good() ? kExitDone : kExitCheckpoint;
}

void AddVerifyCommand(CLI::App& app, ExitCode& code) {
  CLI::App& command = AddCommand(
      app, "verify", "Is a checkpoint whole: every file against its hash, every shard in itself");
  const auto options = std::make_shared<VerifyCommandOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options, &code] { code = RunVerify(*options); });
}

}  // namespace kimi_k3
