// Is an overlay whole, and does it belong to a checkpoint.
#include "overlay/overlay_check.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_hole.h"
#include "checkpoint/overlay_record.h"
#include "checkpoint/untrusted_file.h"
#include "fetch/file_check.h"

namespace kimi_k3 {
namespace {

const std::atomic<bool> never{false};

FileFinding CheckOverlayFile(const OverlayFile& file, const std::filesystem::path& path,
                             const OverlayCheckOptions& options, std::atomic<uint64_t>& read) {
  FileFinding finding;
  finding.name = file.name;
  finding.path = path;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    finding.state = FileState::kMissing;
    finding.problems.push_back(fmt::format("{}: is missing", path.string()));
    return finding;
  }
  try {
    if (options.quick) {
      if (const auto hole = FirstHole(OpenRegularFile(path))) {
        finding.state = FileState::kBad;
        finding.problems.push_back(fmt::format(
            "{}: has a hole from byte {} to {}, which reads as zeros: remove it, and kimi_k3 "
            "quantize makes it anew",
            path.string(), hole->begin, hole->end));
      }
      return finding;
    }
    FileCheckRequest request;
    request.path = path;
    request.digests = {DigestKind::kSha256};
    const FileCheckResult result =
        CheckFile(request, read, options.stop != nullptr ? *options.stop : never);
    finding.hashed = true;
    finding.hash_holds = result.digests.front() == file.sha256;
    if (!finding.hash_holds) {
      finding.state = FileState::kBad;
      finding.problems.push_back(fmt::format(
          "{}: its SHA-256 is {}, not {} as {} says: remove it, and kimi_k3 quantize makes it anew",
          path.string(), result.digests.front(), file.sha256, kOverlayRecordName));
    }
  } catch (const Error& failure) {
    if (failure.kind() == ErrorKind::kInterrupted) throw;
    finding.state = failure.kind() == ErrorKind::kIo ? FileState::kUnreadable : FileState::kBad;
    finding.problems.emplace_back(failure.what());
  }
  return finding;
}

}  // namespace

VerifyReport CheckOverlay(const OverlayCheckOptions& options) {
  Checkpoint checkpoint = Checkpoint::Open(options.base_folders, {});
  const auto record = OverlayRecord::Load(options.overlay);
  VerifyReport report;
  try {
    checkpoint.UseOverlay(options.overlay);
  } catch (const Error& error) {
    if (!record) throw;
    report.problems.emplace_back(error.what());
  }
  VerifyProgress progress;
  for (const OverlayFile& file : record->files) progress.bytes_total += file.bytes;
  progress.files_total = record->files.size();
  std::atomic<uint64_t> read{0};
  for (const OverlayFile& file : record->files) {
    report.files.push_back(CheckOverlayFile(file, options.overlay / file.name, options, read));
    ++progress.files_done;
    progress.bytes_done = read;
    if (options.progress) options.progress(progress);
  }
  report.bytes_read = read;
  return report;
}

}  // namespace kimi_k3
