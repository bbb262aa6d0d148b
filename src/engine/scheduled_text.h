// A text of the scheduler, from its submission to its end.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/speculation.h"
#include "kimi_k3/drafter.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"
#include "kimi_k3/scheduler.h"

namespace kimi_k3 {

// Fields below the line belong to the scheduler's mutex, the others to its thread.
struct ScheduledText {
  ScheduledText(TextRequest given, std::shared_ptr<TextConsumer> taker);

  size_t known_tokens() const { return request.prompt.size() + request.begun.size(); }
  // Of which a state that is held may be the beginning: each token that is scored needs the row
  // before it.
  std::span<const TokenId> reusable() const;
  bool WantsMore() const { return result.tokens.size() < request.max_tokens; }
  bool IsScored(size_t position) const;

  const TextRequest request;
  const std::shared_ptr<TextConsumer> consumer;
  Sampler sampler;
  TextResult result;
  std::vector<TokenId> history;  // prompt and what was generated
  std::unique_ptr<Drafter> drafter;
  std::optional<Speculation> speculation;

  // ----
  TextProgress::Phase phase = TextProgress::Phase::kWaiting;
  size_t prompt_done = 0;
  size_t cached = 0;
  size_t generated = 0;
  bool in_pass = false;
  bool cancelled = false;
};

// Throws as Scheduler::Submit does for a request that this engine cannot serve.
void CheckTextRequest(const TextRequest& request, const Engine& engine);

}  // namespace kimi_k3
