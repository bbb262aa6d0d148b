// Puts an overlay's matrices in the place of a checkpoint's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/overlay_record.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"

namespace kimi_k3 {

// Used once, on a checkpoint that is open. Nothing of an overlay is believed: names, shapes and
// offsets are checked against the checkpoint's config and the files' own sizes.
class OverlayBinder {
 public:
  OverlayBinder(Checkpoint& checkpoint, std::filesystem::path folder);

  // Throws Error as Checkpoint::UseOverlay says; then the checkpoint is as it was.
  void Run();

 private:
  // A matrix that the record names.
  struct Promised {
    const OverlayMatrix* matrix = nullptr;
    const OverlayFile* file = nullptr;
    bool found = false;
  };

  void LoadRecord();
  void ListPromised();
  void ReadFiles();
  void ReadFile(const OverlayFile& file, SafetensorsHeaderParser& parser);
  void Bind(const OverlayFile& file, uint64_t data_offset, const HeaderTensor& tensor);
  // Whether the checkpoint holds the matrix that this one was made from; adds a problem otherwise.
  bool IsMadeFrom(const TensorLocation& base, const Promised& promised, const std::string& where);
  void CheckNothingIsMissing();
  // A file that the record does not have: an entry has been taken out of it.
  void CheckNothingIsUnnamed();
  std::string PathOf(const OverlayFile& file) const;

  Checkpoint& checkpoint_;
  std::filesystem::path folder_;
  OverlayRecord record_;
  OverlayInUse summary_;
  std::unordered_map<std::string_view, Promised> promised_;
  std::vector<Shard> shards_;  // the overlay's
  std::unordered_map<size_t, TensorLocation> replaced_;
  ProblemList problems_;
  bool tells_of_another_base_ = false;
};

}  // namespace kimi_k3
