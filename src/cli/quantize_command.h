// The quantize command: makes an overlay of a checkpoint, and goes on where it was stopped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/tensor_table.h"
#include "cli/command_line.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

struct QuantizeOptions {
  EngineOptions engine;  // model_dir, more_model_dirs and shard
  std::optional<Dtype> form;
  std::optional<std::string> output;
  std::vector<std::string> only;
  std::vector<std::string> except;
  size_t threads = 0;
  bool json = false;
  bool quiet = false;
};

// Writes the overlay and tells on standard output what it holds. Throws Error as WriteOverlay does.
void RunQuantize(const QuantizeOptions& options);

// Adds `quantize` to the program; chosen, it runs while arguments are parsed.
void AddQuantizeCommand(CLI::App& app);

}  // namespace kimi_k3
