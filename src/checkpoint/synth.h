// Writes checkpoints of random weights in the published format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace kimi_k3 {

struct SynthProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of tensor data
  size_t shards_done = 0;
  size_t shards_total = 0;
};

struct SynthOptions {
  std::string config_json;          // text of the config.json to write
  std::filesystem::path output;     // folder; made where it is not there
  std::filesystem::path tokenizer;  // folder to copy tokenizer files from, or empty
  uint64_t seed = 0;
  // Files to spread the tensors over; 0: a file a layer and one each for the embedding with the
  // head, the projector and the vision tower, as published; 1: model.safetensors without an index.
  size_t shards = 0;
  // Holes for data: real headers, which say so (kMadeOfHoles), and offsets, all weights zero.
  bool sparse = false;
  bool force = false;  // replace a checkpoint that is there
  // Called every few megabytes; may throw to stop, which leaves nothing half-written behind.
  std::function<void(const SynthProgress&)> progress;
};

struct SynthReport {
  uint64_t tensors = 0;
  uint64_t tensor_bytes = 0;
  size_t shards = 0;
};

// Writes config.json, generation_config.json, the shards and their index, each under a temporary
// name until it is whole, the index last. The bytes depend on config and seed alone (each tensor's
// on its name besides). Memory stays below some ten megabytes. Throws Error(kCheckpoint) for a
// config that is refused, Error(kUsage) for a folder that already holds a checkpoint (without
// force), more shards than there are layers and parts, or a tokenizer folder without a tokenizer,
// and Error(kIo) where the disk has too little space or a write fails.
SynthReport WriteSynthCheckpoint(const SynthOptions& options);

}  // namespace kimi_k3
