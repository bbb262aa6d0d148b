// The options of the run command.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
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
  std::optional<std::string> system;
  bool no_thinking = false;
  std::optional<ThinkingEffort> effort;  // nothing: as the vendor's template has it
  bool hide_thinking = false;

  size_t max_tokens = 256;
  bool max_tokens_given = false;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::optional<std::string> json_schema;       // what the answer must satisfy
  std::optional<std::string> json_schema_file;  // or where that stands

  std::optional<std::filesystem::path> session_file;
  size_t session_every = 8;  // tokens between two saves
  bool resume = false;

  bool print_ids = false;
  std::optional<std::filesystem::path> logits_file;
  std::optional<std::filesystem::path> stats_file;
  bool quiet = false;
};

// Adds the options to `app`; `options` must outlive the parse.
void AddRunOptions(CLI::App& app, RunOptions& options);

// Throws Error(kUsage) for combinations that make no sense (no prompt, two prompts, a flag that
// another one rules out).
void CheckRunOptions(const RunOptions& options);

// What is allowed but not what the user expects: flags that have no effect, too many threads. One
// sentence each.
std::vector<std::string> RunOptionWarnings(const RunOptions& options);

}  // namespace kimi_k3
