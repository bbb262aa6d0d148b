// overlay.json: what an overlay holds, what it was made from, and whether it is finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {

inline constexpr std::string_view kOverlayRecordName = "overlay.json";

// How an overlay stores a matrix. Its name on disk is the checkpoint's with "." and the name of the
// form behind it, and its dtype and shape there are U8, [rows, bytes of a row].
// name: "q8", "q4", "lossless".
std::optional<Dtype> OverlayFormNamed(std::string_view name);
std::string_view OverlayFormName(Dtype form);  // REQUIRES: one of these forms
// Bytes of a group of kQuantizedGroupColumns weights, and of a row of whole groups, in the form q8
// or q4.
size_t QuantizedGroupBytes(Dtype form);
uint64_t QuantizedRowBytes(Dtype form, uint64_t columns);
// Whether a matrix of that many columns has rows of that many bytes in this form.
bool OverlayRowFits(Dtype form, uint64_t columns, uint64_t row_bytes);

struct OverlayMatrix {
  std::string name;  // on disk
  uint64_t bytes = 0;
  uint64_t base_fingerprint = 0;  // MatrixFingerprint of what it was made from
  // Root of the sum of squared errors over that of squared weights; 0 for lossless.
  double error = 0;
};

struct OverlayFile {
  std::string name;  // plain
  uint64_t bytes = 0;
  std::string sha256;  // lower-case hexadecimal
  std::vector<OverlayMatrix> matrices;
};

struct OverlayRecord {
  std::string trunk;  // a form's name
  // Patterns of names that were asked for; empty: as the form has it.
  std::vector<std::string> only;
  std::vector<std::string> except;
  bool complete = false;
  std::vector<OverlayFile> files;

  // Nothing where the folder has no record. Throws Error(kCheckpoint) that names file and field for
  // one that is damaged or of a later version.
  static std::optional<OverlayRecord> Load(const std::filesystem::path& folder);
  // Whole or not at all, synced. Throws Error(kIo).
  void Save(const std::filesystem::path& folder) const;
  // Tells overlays apart: 8 hexadecimal digits that depend on what all files hold.
  std::string Fingerprint() const;
};

// Tells one matrix from another cheaply: by type, shape and some bytes in its middle. Throws
// Error(kIo).
uint64_t MatrixFingerprint(const Checkpoint& checkpoint, const TensorLocation& matrix);

}  // namespace kimi_k3
