// The folder of an overlay that is being made: whose it is, and what is in it already.
#include "overlay/overlay_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockFolder = ".kimi_k3";
constexpr std::string_view kLockName = "lock";

bool ByFileName(const OverlayFile& file, std::string_view name) { return file.name < name; }

std::string OptionsText(const OverlayRecord& record) {
  std::string text = "--trunk " + record.trunk;
  for (const std::string& pattern : record.only) text += " --only '" + Printable(pattern) + "'";
  for (const std::string& pattern : record.except) text += " --except '" + Printable(pattern) + "'";
  return text;
}

}  // namespace

OverlayFolder::OverlayFolder(fs::path folder, OverlayRecord wanted) : folder_(std::move(folder)) {
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) {
    Fail(ErrorKind::kUsage, "{}: is there already and is no folder; name another one",
         folder_.string());
  }
  auto found = OverlayRecord::Load(folder_);
  if (!found) CheckNothingElseIsThere();
  Take();
  if (found && (found->trunk != wanted.trunk || found->only != wanted.only ||
                found->except != wanted.except)) {
    Fail(ErrorKind::kUsage,
         "{}: holds an overlay made with {}, not with {}: name another folder, or give the flags "
         "that it was made with",
         folder_.string(), OptionsText(*found), OptionsText(wanted));
  }
  record_ = found ? *std::move(found) : std::move(wanted);
  RemoveHalfWritten();
}

OverlayFolder::Traces::~Traces() {
  if (wanted || !made_lock) return;
  std::error_code ignored;
  fs::remove(folder / kLockFolder / kLockName, ignored);
  fs::remove(folder / kLockFolder, ignored);
  if (made_folder) fs::remove(folder, ignored);  // where it is empty
}

void OverlayFolder::Take() {
  std::error_code error;
  const bool had_lock = fs::exists(folder_ / kLockFolder, error);
  const bool made = fs::create_directories(folder_, error);
  if (error) {
    Fail(ErrorKind::kIo, "{}: cannot make the folder: {}", folder_.string(), error.message());
  }
  lock_.emplace(folder_);
  traces_.folder = folder_;
  traces_.made_folder = made;
  traces_.made_lock = !had_lock;
}

void OverlayFolder::CheckNothingElseIsThere() const {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == kLockFolder || AtomicFile::TargetOf(name) == kOverlayRecordName) continue;
    Fail(ErrorKind::kUsage,
         "{}: holds other files ({}) and no overlay; name a new or an empty folder",
         folder_.string(), Printable(name));
  }
}

void OverlayFolder::RemoveHalfWritten() const {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const auto target = AtomicFile::TargetOf(it->path().filename().string());
    std::error_code ignored;
    if (target && IsOverlayFileName(*target)) fs::remove(it->path(), ignored);
  }
}

const OverlayFile* OverlayFolder::Entry(const OverlayUnit& unit) const {
  const auto file =
      std::lower_bound(record_.files.begin(), record_.files.end(), unit.file_name, ByFileName);
  return file != record_.files.end() && file->name == unit.file_name ? &*file : nullptr;
}

const OverlayFile* OverlayFolder::Find(const OverlayUnit& unit) const {
  const OverlayFile* file = Entry(unit);
  if (file == nullptr) return nullptr;
  std::error_code error;
  return fs::file_size(folder_ / file->name, error) == file->bytes && !error ? file : nullptr;
}

void OverlayFolder::CheckMadeFrom(const Checkpoint& checkpoint, const OverlayUnit& unit) const {
  const OverlayFile* file = Entry(unit);
  if (file == nullptr) return;
  const std::string suffix = "." + record_.trunk;
  for (const OverlayMatrix& matrix : file->matrices) {
    const auto base = std::ranges::find_if(unit.matrices, [&](const OverlayCandidate& candidate) {
      return candidate.name + suffix == matrix.name;
    });
    if (base == unit.matrices.end() ||
        MatrixFingerprint(checkpoint, base->base) != matrix.base_fingerprint) {
      Fail(ErrorKind::kUsage,
           "{}: holds an overlay of another checkpoint than {} (their {} differ); name another "
           "folder",
           folder_.string(), checkpoint.model_dir().string(), Printable(matrix.name));
    }
  }
}

void OverlayFolder::CheckSpace(uint64_t needed_bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  if (error || space.available >= needed_bytes) return;
  Fail(ErrorKind::kIo, "{}: the overlay needs about {} more, but the disk has {} left",
       folder_.string(), FormatByteSize(needed_bytes), FormatByteSize(space.available));
}

void OverlayFolder::Begin() {
  traces_.wanted = true;
  record_.complete = false;
  record_.Save(folder_);
}

void OverlayFolder::Add(OverlayFile file) {
  const auto place =
      std::lower_bound(record_.files.begin(), record_.files.end(), file.name, ByFileName);
  if (place != record_.files.end() && place->name == file.name) {
    *place = std::move(file);
  } else {
    record_.files.insert(place, std::move(file));
  }
  record_.Save(folder_);
}

void OverlayFolder::Complete() {
  record_.complete = true;
  record_.Save(folder_);
}

}  // namespace kimi_k3
