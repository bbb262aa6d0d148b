// Puts an overlay's matrices in the place of a checkpoint's own.
#include "checkpoint/overlay_binder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/file_hole.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/shard_header.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMakeAgain =
    "give the kimi_k3 quantize command that made the overlay again, it makes what is missing";

}  // namespace

OverlayBinder::OverlayBinder(Checkpoint& checkpoint, fs::path folder)
    : checkpoint_(checkpoint), folder_(std::move(folder)) {}

void OverlayBinder::Run() {
  LoadRecord();
  ListPromised();
  ReadFiles();
  CheckNothingIsMissing();
  if (!problems_.empty() && !tells_of_another_base_) {
    problems_.AddAlways("{}: where a file is damaged, remove it and {}", folder_.string(),
                        kMakeAgain);
  }
  CheckNothingIsUnnamed();
  problems_.ThrowIfAny();
  for (Shard& shard : shards_) checkpoint_.shards_.push_back(std::move(shard));
  checkpoint_.replaced_ = std::move(replaced_);
  checkpoint_.overlay_ = std::move(summary_);
}

void OverlayBinder::LoadRecord() {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) {
    Fail(ErrorKind::kCheckpoint, "{}: this overlay is not there, or is no folder",
         folder_.string());
  }
  auto record = OverlayRecord::Load(folder_);
  if (!record) {
    Fail(ErrorKind::kCheckpoint, "{}: holds no {}: it is no overlay (kimi_k3 quantize makes one)",
         folder_.string(), kOverlayRecordName);
  }
  record_ = *std::move(record);
  if (record_.complete && record_.files.empty()) {
    Fail(ErrorKind::kCheckpoint,
         "{}: this overlay holds no matrices; make it anew (kimi_k3 quantize)", folder_.string());
  }
  if (!record_.complete) {
    Fail(ErrorKind::kCheckpoint,
         "{}: this overlay is not finished: give the same kimi_k3 quantize command again, it goes "
         "on where it was stopped",
         folder_.string());
  }
  summary_ = {.folder = folder_,
              .trunk = record_.trunk,
              .exact = true,
              .fingerprint = record_.Fingerprint()};
}

std::string OverlayBinder::PathOf(const OverlayFile& file) const {
  return (folder_ / file.name).string();
}

void OverlayBinder::ListPromised() {
  for (const OverlayFile& file : record_.files) {
    for (const OverlayMatrix& matrix : file.matrices) {
      if (promised_.try_emplace(matrix.name, Promised{&matrix, &file, false}).second) continue;
      problems_.Add("{}: names the matrix {} twice", (folder_ / kOverlayRecordName).string(),
                    Printable(matrix.name));
    }
  }
}

void OverlayBinder::ReadFiles() {
  SafetensorsHeaderParser parser;
  for (const OverlayFile& file : record_.files) {
    if (!HasEntry(folder_, file.name)) {
      Fail(ErrorKind::kCheckpoint, "{}: is missing: {}", PathOf(file), kMakeAgain);
    }
    try {
      ReadFile(file, parser);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCheckpoint) throw;
      Fail(ErrorKind::kCheckpoint, "{}: remove it and {}", error.what(), kMakeAgain);
    }
  }
}

void OverlayBinder::ReadFile(const OverlayFile& file, SafetensorsHeaderParser& parser) {
  const OpenFile opened = OpenRegularFile(folder_ / file.name);
  if (opened.bytes != file.bytes) {
    Fail(ErrorKind::kCheckpoint, "{}: has {} bytes, but {} says {}: it was cut or replaced",
         PathOf(file), opened.bytes, kOverlayRecordName, file.bytes);
  }
  if (const auto hole = FirstHole(opened)) {
    checkpoint_.warnings_.push_back(fmt::format(
        "{}: has a hole from byte {} to {}, which reads as zeros, as after a copy that was broken "
        "off: kimi_k3 verify --overlay tells whether it is whole",
        PathOf(file), hole->begin, hole->end));
  }
  shards_.push_back({folder_ / file.name, opened.bytes});
  const uint64_t data_offset = LoadShardHeader(folder_ / file.name, opened, parser);
  parser.Parse(opened.bytes - data_offset, PathOf(file), problems_,
               [&](const HeaderTensor& tensor) { Bind(file, data_offset, tensor); });
}

void OverlayBinder::Bind(const OverlayFile& file, uint64_t data_offset,
                         const HeaderTensor& tensor) {
  const std::string where = PathOf(file) + ": " + Printable(tensor.name);
  const auto promised = promised_.find(tensor.name);
  if (promised == promised_.end() || promised->second.file != &file) {
    problems_.Add("{}: {} does not say that it is here", where, kOverlayRecordName);
    return;
  }
  promised->second.found = true;
  const size_t dot = tensor.name.rfind('.');
  const auto form = OverlayFormNamed(tensor.name.substr(dot + 1));
  const auto match = checkpoint_.slots_.Find(tensor.name.substr(0, dot));
  const TensorSlots::Tensor target =
      match ? checkpoint_.slots_.Describe(match->slot) : TensorSlots::Tensor{};
  if (!form || !match ||
      (target.spec->kind != TensorKind::kMatrix && target.spec->kind != TensorKind::kHead)) {
    if (!std::exchange(tells_of_another_base_, true)) {
      problems_.Add(
          "{}: is no matrix of this model that an overlay can replace; the overlay may be another "
          "model's",
          where);
    }
    return;
  }
  const TensorSpec& spec = *target.spec;
  const auto base = checkpoint_.FindInBase(spec.role, target.layer);
  // Of a part of the model, what is not there is not run either.
  if (!base || !IsMadeFrom(*base, promised->second, where)) return;
  if (tensor.dtype != DtypeName(*form) || tensor.shape.size() != 2 ||
      tensor.end - tensor.begin != promised->second.matrix->bytes || tensor.shape[0] != spec.rows ||
      !OverlayRowFits(*form, spec.columns, tensor.shape[1])) {
    problems_.Add("{}: is stored as {} {}, which does not hold a {} by {} matrix as {}", where,
                  Printable(tensor.dtype, 40), ShapeText(tensor.shape), spec.rows, spec.columns,
                  OverlayFormName(*form));
    return;
  }
  const auto shard = static_cast<uint32_t>(checkpoint_.shards_.size() + shards_.size() - 1);
  const TensorLocation location = {{shard, data_offset + tensor.begin, tensor.end - tensor.begin},
                                   *form,
                                   spec.rows,
                                   spec.columns};
  if (!replaced_.emplace(match->slot, location).second) {
    problems_.Add("{}: this matrix is in the overlay in another form too", where);
  }
  summary_.exact = summary_.exact && *form == Dtype::kCodedBf16;
  ++summary_.matrices;
  summary_.bytes += location.range.bytes;
  summary_.replaced_bytes += base->range.bytes;
}

bool OverlayBinder::IsMadeFrom(const TensorLocation& base, const Promised& promised,
                               const std::string& where) {
  if (tells_of_another_base_) return false;
  if (MatrixFingerprint(checkpoint_, base) == promised.matrix->base_fingerprint) return true;
  tells_of_another_base_ = true;
  problems_.Add(
      "{}: was made from another checkpoint than {}: make an overlay of this one (kimi_k3 "
      "quantize)",
      where, checkpoint_.model_dir().string());
  return false;
}

void OverlayBinder::CheckNothingIsMissing() {
  for (const OverlayFile& file : record_.files) {
    for (const OverlayMatrix& matrix : file.matrices) {
      if (promised_[matrix.name].found) continue;
      problems_.Add("{}: {} is missing, though {} says that it is here", PathOf(file),
                    Printable(matrix.name), kOverlayRecordName);
    }
  }
}

void OverlayBinder::CheckNothingIsUnnamed() {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(".safetensors") || name.starts_with('.')) continue;
    if (std::ranges::find(record_.files, name, &OverlayFile::name) != record_.files.end()) continue;
    problems_.Add("{}: lies in this overlay, but {} does not have it: {}",
                  (folder_ / Printable(name)).string(), kOverlayRecordName, kMakeAgain);
  }
}

}  // namespace kimi_k3
