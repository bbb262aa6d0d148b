// Continuing a text: prompt in, tokens out, until something says stop.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/constraint.h"
#include "kimi_k3/drafter.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"

namespace kimi_k3 {

enum class StopReason {
  kEndOfText,    // a stop token came
  kCaller,       // the callback said so (a stop text, a closed connection)
  kMaxTokens,    // as many tokens as asked for
  kContextFull,  // no position left
  kInterrupted   // Engine::Interrupt
};

// "end of text", "stopped", "token limit", "context full", "interrupted".
std::string_view StopReasonName(StopReason reason);

struct GenerationOptions {
  size_t max_tokens = 256;
  SamplingOptions sampling = {};
  bool ignore_eos = false;  // stop tokens are tokens like others
  // What the generated tokens must make; null: anything. It sees each of them.
  OutputConstraint* constraint = nullptr;
  // Guesses at what comes next, checked together; wants EngineOptions::tentative_rows. The text is
  // the same, bit for bit. Null: none. Must outlive the call.
  Drafter* drafter = nullptr;
  // Called for each prompt row with its place in the prompt and its logits, where set. All rows
  // then compute logits, which costs a product with the head for each.
  std::function<void(size_t, std::span<const float>)> on_prompt_logits = {};
  // Called when a piece of the prompt is done, with the number of prompt tokens done so far.
  std::function<void(size_t)> on_prompt_progress = {};
};

struct GenerationResult {
  std::vector<TokenId> tokens;  // generated, without the stop token
  StopReason reason = StopReason::kMaxTokens;
};

// Appends `prompt` (not empty) to the sequence and generates from there. on_token: called for each
// token as it is chosen, the stop token excepted; returns false to stop. The sequence has then seen
// all tokens but the last one; during the call it may be behind by the guesses that proved right.
// Throws Error(kUsage) where the prompt has no room in the sequence, before anything is computed;
// else what Engine::Forward throws, an interruption during generation excepted, which is a result.
GenerationResult Generate(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                          const GenerationOptions& options,
                          const std::function<bool(TokenId)>& on_token);

// Finds stop texts in a stream of text. Text is given out as soon as it cannot be the beginning of
// a stop text; a stop text itself and what follows it never is. Where stop texts overlap, the one
// that ends first counts (of those that end together, the longest). What is given out in all does
// not depend on how the text was cut. One thread at a time.
class StopTextFilter {
 public:
  // Empty stop texts are ignored.
  explicit StopTextFilter(std::vector<std::string> stop_texts);

  // Takes more text, returns what may be shown.
  std::string Append(std::string_view text);
  // No more text comes: returns what was held back.
  std::string Flush();
  // Whether a stop text has been met.
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stop_texts_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace kimi_k3
