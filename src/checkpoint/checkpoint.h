// A checkpoint on disk: its config, its shards, and where every tensor of the model lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "checkpoint/location_table.h"
#include "checkpoint/model_config.h"
#include "checkpoint/tensor_slots.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {

// Where bytes lie: [offset, offset + bytes) of shard `shard`, checked to be inside the file when it
// was opened.
struct ByteRange {
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A tensor that is read as one piece.
struct TensorLocation {
  ByteRange range;
  Dtype dtype = Dtype::kBf16;
  size_t rows = 0;
  size_t columns = 0;
};

// One of an expert's three matrices: packed MXFP4 (kU8) with its scales, or bf16 or f32 with no
// scales (bytes 0); unpacked, all experts of a model have the same dtype.
struct ExpertMatrixLocation {
  ByteRange weights;
  ByteRange scales;
  Dtype dtype = Dtype::kBf16;
};

// One routed expert.
struct ExpertLocation {
  ExpertMatrixLocation gate, up, down;
};

struct Shard {
  std::filesystem::path path;
  uint64_t bytes = 0;
};

// What UseOverlay has put in place of the checkpoint's matrices.
struct OverlayInUse {
  std::filesystem::path folder;
  std::string trunk;        // what the overlay was made with: "q8", "q4", "lossless"
  bool exact = false;       // every matrix stands for the same numbers as the checkpoint's own
  std::string fingerprint;  // tells overlays apart
  size_t matrices = 0;
  uint64_t bytes = 0;           // of these matrices
  uint64_t replaced_bytes = 0;  // that they have in the checkpoint itself
};

// Opened once, then read-only; safe to use from many threads.
class Checkpoint {
 public:
  // Reads config.json, model.safetensors.index.json (or the single model.safetensors) and every
  // shard's header, and binds every tensor that the config demands. Throws Error(kCheckpoint) that
  // names file and tensor for whatever is missing, surplus, doubled, overlapping, truncated, or of
  // another shape or dtype than the config demands; several problems are listed together (every
  // file that cannot be read or was cut short, and of others at most 5 a file and 20 in all, then a
  // count), and where a tensor lies in a part of a shard that kimi_k3 pull --shard has
  // left out, which would read as zeros. Vision tensors (`vision_tower.`, `mm_projector.`) are
  // allowed and ignored.
  static Checkpoint Open(const std::filesystem::path& model_dir);
  // The same for a model whose files lie in several folders, perhaps on several drives: config.json
  // and the index come from the first folder that has them, each shard from the first that has it.
  // part: as ParseModelPart reads it; empty for the whole model. Of a part, only the tensors that
  // it needs must be there, and shards that hold none of these may be missing; what is there is
  // checked all the same. Throws Error(kUsage) too, as ParseModelPart and CheckModelPart do.
  static Checkpoint Open(std::vector<std::filesystem::path> model_dirs, std::string_view part = {});
  // Throws as Open does, but leaves out no file that has problems.
  static void Check(std::vector<std::filesystem::path> model_dirs, std::string_view part = {});

  const ModelConfig& config() const { return config_; }
  // From now on a token goes to `count` experts, the first that the model would choose, 0: to as
  // many as the model says. Answers are then not the model's. Throws Error(kUsage) for more than
  // the model says. Not while others use the checkpoint.
  void UseExperts(size_t count);
  // From now on Find gives the matrices that the overlay in `folder` holds in place of the
  // checkpoint's own (docs/overlay.md). Throws Error(kCheckpoint) or Error(kIo) that names file and
  // tensor for an overlay that is none, is not finished, is damaged, or was made from another
  // checkpoint. Once, and not while others use the checkpoint.
  void UseOverlay(const std::filesystem::path& folder);
  const std::optional<OverlayInUse>& overlay() const { return overlay_; }
  // The first folder.
  const std::filesystem::path& model_dir() const { return model_dirs_.front(); }
  const std::vector<std::filesystem::path>& model_dirs() const { return model_dirs_; }
  // Those that are there, and then the files of the overlay.
  const std::vector<Shard>& shards() const { return shards_; }

  // The tensor of a role; nothing where the model has no such role, or where it lies outside the
  // part that was opened and is not there. Not for expert roles.
  // layer: ignored for roles that occur once per model.
  std::optional<TensorLocation> Find(Role role, size_t layer = 0) const;
  // Find, for a role that the config demands; throws Error(kCheckpoint) naming it otherwise.
  TensorLocation Get(Role role, size_t layer = 0) const;
  // The same for the tensor that an overlay may have replaced.
  std::optional<TensorLocation> FindInBase(Role role, size_t layer = 0) const;
  TensorLocation GetInBase(Role role, size_t layer = 0) const;
  // An expert of a MoE layer, both of the part that was opened; throws Error(kCheckpoint)
  // otherwise.
  ExpertLocation Expert(size_t layer, size_t expert) const;

  // The name on disk, for messages; MXFP4 experts: that of the packed weights.
  std::string TensorName(Role role, size_t layer = 0, size_t expert = 0) const;

  // All tensors in the shards, ignored ones included, and the bytes of their data.
  uint64_t tensor_count() const { return tensor_count_; }
  uint64_t tensor_bytes() const { return tensor_bytes_; }
  uint64_t ignored_tensor_count() const { return ignored_tensor_count_; }

  // What is odd but allowed: files that look like weights and are not named by the index, shards
  // with holes, ModelConfig::warnings.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // A small vector widened to f32, read from disk now; A_log: its first kda.heads entries. Throws
  // Error(kIo) where the read fails and Error(kCheckpoint) naming tensor and element for a NaN or
  // an infinity.
  std::vector<float> ReadVector(Role role, size_t layer = 0) const;

 private:
  friend class CheckpointOpener;
  friend class OverlayBinder;
  Checkpoint(std::vector<std::filesystem::path> model_dirs, ModelConfig config);

  static Checkpoint OpenListing(std::vector<std::filesystem::path> model_dirs,
                                std::string_view part, size_t listed_problems);

  TensorLocation Demand(std::optional<TensorLocation> found, Role role, size_t layer) const;
  ByteRange RangeOf(const LocationTable::Location& location, uint64_t bytes) const;
  ExpertMatrixLocation ExpertMatrix(size_t layer, size_t expert, Role role) const;

  std::vector<std::filesystem::path> model_dirs_;  // at least one
  ModelConfig config_;
  std::vector<Shard> shards_;
  TensorSlots slots_;
  LocationTable locations_;
  std::unordered_map<size_t, TensorLocation> replaced_;  // by slot
  std::optional<OverlayInUse> overlay_;
  uint64_t tensor_count_ = 0;
  uint64_t tensor_bytes_ = 0;
  uint64_t ignored_tensor_count_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace kimi_k3
