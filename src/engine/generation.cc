// Continuing a text: prompt in, tokens out, until something says stop.
#include "kimi_k3/generation.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kimi_k3 {
namespace {

// Runs the prompt through the model piece by piece; returns the logits of its last row.
std::vector<float> RunPrompt(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                             const GenerationOptions& options) {
  const bool all_logits = static_cast<bool>(options.on_prompt_logits);
  const size_t vocabulary = engine.vocabulary();
  std::vector<float> logits;
  for (size_t done = 0; done < prompt.size();) {
    const size_t count = std::min(engine.max_rows(), prompt.size() - done);
    std::vector<PassRow> rows;
    for (size_t i = done; i < done + count; ++i) {
      rows.push_back({.sequence = &sequence,
                      .token = prompt[i],
                      .wants_logits = all_logits || i + 1 == prompt.size()});
    }
    const auto wanted = std::ranges::count_if(rows, &PassRow::wants_logits);
    logits.resize(static_cast<size_t>(wanted) * vocabulary);
    engine.Forward(rows, logits);
    for (size_t i = 0; all_logits && i < count; ++i) {
      options.on_prompt_logits(done + i, std::span(logits).subspan(i * vocabulary, vocabulary));
    }
    done += count;
    if (options.on_prompt_progress) options.on_prompt_progress(done);
  }
  logits.erase(logits.begin(), logits.end() - static_cast<ptrdiff_t>(vocabulary));
  return logits;
}

}  // namespace

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfText:
      return "end of text";
    case StopReason::kCaller:
      return "stopped";
    case StopReason::kMaxTokens:
      return "token limit";
    case StopReason::kContextFull:
      return "context full";
    case StopReason::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

GenerationResult Generate(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                          const GenerationOptions& options,
                          const std::function<bool(TokenId)>& on_token) {
  if (prompt.empty()) Fail(ErrorKind::kUsage, "the prompt is empty");
  if (prompt.size() > sequence.room()) {
    Fail(ErrorKind::kUsage,
         "the prompt has {} tokens, but only {} of the context's {} positions are free: ask for a "
         "larger context (-c)",
         prompt.size(), sequence.room(), engine.context());
  }
  Sampler sampler(options.sampling);
  const std::vector<TokenId> stop_tokens =
      options.ignore_eos ? std::vector<TokenId>{} : engine.StopTokens();
  GenerationResult result;
  try {
    std::vector<float> logits = RunPrompt(engine, sequence, prompt, options);
    std::vector<TokenId> history(sequence.tokens().begin(), sequence.tokens().end());
    while (result.tokens.size() < options.max_tokens) {
      if (options.constraint != nullptr) options.constraint->MaskLogits(logits);
      const TokenId token = sampler.Sample(logits, history);
      if (std::ranges::find(stop_tokens, token) != stop_tokens.end()) {
        result.reason = StopReason::kEndOfText;
        return result;
      }
      result.tokens.push_back(token);
      history.push_back(token);
      if (options.constraint != nullptr) options.constraint->Accept(token);
      if (!on_token(token)) {
        result.reason = StopReason::kCaller;
        return result;
      }
      if (options.constraint != nullptr && options.constraint->Ended()) {
        result.reason = StopReason::kEndOfText;
        return result;
      }
      if (result.tokens.size() == options.max_tokens) break;
      if (sequence.room() == 0) {
        result.reason = StopReason::kContextFull;
        return result;
      }
      engine.Forward({{{.sequence = &sequence, .token = token, .wants_logits = true}}}, logits);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) throw;
    result.reason = StopReason::kInterrupted;
    return result;
  }
  result.reason = StopReason::kMaxTokens;
  return result;
}

StopTextFilter::StopTextFilter(std::vector<std::string> stop_texts)
    : stop_texts_(std::move(stop_texts)) {
  std::erase_if(stop_texts_, [](const std::string& text) { return text.empty(); });
}

std::string StopTextFilter::Append(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  // The stop text that is complete first counts, however the text was cut; of several that end at
  // the same place the longest, since nothing of it may have been shown.
  size_t first = std::string::npos;
  size_t end = std::string::npos;
  for (const std::string& stop : stop_texts_) {
    const size_t found = held_.find(stop);
    if (found == std::string::npos || found + stop.size() > end) continue;
    first = found + stop.size() < end ? found : std::min(first, found);
    end = found + stop.size();
  }
  if (first != std::string::npos) {
    stopped_ = true;
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  // Hold back the longest ending that a stop text begins with.
  size_t hold = 0;
  for (const std::string& stop : stop_texts_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > hold; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) {
        hold = n;
        break;
      }
    }
  }
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopTextFilter::Flush() { return std::exchange(held_, {}); }

}  // namespace kimi_k3
