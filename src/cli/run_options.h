// The options of the run command.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kimi_k3/chat.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"

namespace kimi_k3 {

struct RunOptions {
  EngineOptions engine;

  std::optional<std::string> prompt_text;
  std::optional<std::string> prompt_file;  // "-": standard input
  std::optional<std::vector<TokenId>> prompt_ids;
  bool raw = false;  // no chat template
  std::string system;
  bool no_thinking = false;
  ThinkingEffort effort = ThinkingEffort::kMax;
  bool hide_thinking = false;

  size_t max_tokens = 256;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  bool print_ids = false;
  std::optional<std::filesystem::path> logits_file;
  std::optional<std::filesystem::path> stats_file;
  bool quiet = false;
};

// Adds the options to `app`; `options` must outlive the parse.
void AddRunOptions(CLI::App& app, RunOptions& options);

// Throws Error(kUsage) for combinations that make no sense (no prompt, two prompts).
void CheckRunOptions(const RunOptions& options);

}  // namespace kimi_k3
