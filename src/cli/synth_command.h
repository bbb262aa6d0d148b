// The synth command: writes a checkpoint of random weights in the published format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/synth_config.h"
#include "cli/command_line.h"

namespace kimi_k3 {

struct SynthCommandOptions {
  std::optional<std::string> config_file;  // else a known geometry
  std::optional<std::string> geometry;
  GeometryChanges changes;
  std::filesystem::path output;
  std::string tokenizer;  // folder to copy a tokenizer from; empty: none
  uint64_t seed = 0;
  std::optional<uint64_t> shards;  // unset: 3 for tiny, else a shard a layer as published
  bool sparse = false;
  bool force = false;
  bool quiet = false;
};

// Writes the checkpoint, with a live line on a terminal and one line about the result. Throws Error
// as WriteSynthCheckpoint does, kUsage where both a config and a geometry are given and
// kInterrupted where the user stopped it; then no file is half-written and no index is there.
void RunSynth(const SynthCommandOptions& options);

// Adds `synth` to the program; chosen, it runs while arguments are parsed.
void AddSynthCommand(CLI::App& app);

}  // namespace kimi_k3
