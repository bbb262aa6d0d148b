// The options of the chat command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "kimi_k3/chat.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"

namespace kimi_k3 {

struct ChatOptions {
  EngineOptions engine;
  std::optional<std::string> system;
  bool no_thinking = false;
  std::optional<ThinkingEffort> effort;  // nothing: as the vendor's template has it
  bool hide_thinking = false;

  size_t max_tokens = std::numeric_limits<int64_t>::max();  // of each answer; 0: as many as fit
  // The vendor's defaults.
  SamplingOptions sampling = {.temperature = 1.0F, .top_p = 0.95F};
  bool seed_given = false;
  std::vector<std::string> stop;  // texts before which each answer ends
  // Puts what flags say of sampling in the place of what a session says; unset: nothing was said.
  std::function<void(SamplingOptions&)> take_given_sampling = {};

  std::optional<std::filesystem::path> session_file;
  size_t session_every = 8;
  std::optional<std::filesystem::path> history_file;
  std::optional<std::filesystem::path> stats_file;  // of the last answer
  bool quiet = false;
};

// Adds the options to `app`; `options` must outlive the parse.
void AddChatOptions(CLI::App& app, ChatOptions& options);

// Whether the parse met --seed.
bool SeedIsGiven(const CLI::App& app);

// Throws Error(kUsage) for combinations that make no sense.
void CheckChatOptions(const ChatOptions& options);

}  // namespace kimi_k3
