// Continuing a text: prompt in, tokens out, until something says stop.
#include "kimi_k3/generation.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/pass_cost.h"
#include "engine/speculation.h"

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

// The tokens of one answer, pass by pass.
class Answer {
 public:
  Answer(Engine& engine, Sequence& sequence, const GenerationOptions& options,
         const std::function<bool(TokenId)>& on_token)
      : engine_(engine),
        sequence_(sequence),
        options_(options),
        on_token_(on_token),
        sampler_(options.sampling),
        stop_tokens_(options.ignore_eos ? std::vector<TokenId>{} : engine.StopTokens()) {
    if (options.drafter != nullptr) speculation_.emplace(*options.drafter, MostGuesses(engine));
  }

  // logits: of the prompt's last row.
  StopReason Run(std::vector<float> logits) {
    if (options_.max_tokens == 0) return StopReason::kMaxTokens;
    history_.assign(sequence_.tokens().begin(), sequence_.tokens().end());
    std::vector<TokenId> guesses;
    for (;;) {
      if (const auto reason = Choose(logits, guesses)) return *reason;
      if (sequence_.room() == 0) return StopReason::kContextFull;
      guesses = Guess();
      Pass(guesses, logits);
    }
  }
  std::vector<TokenId>& tokens() { return tokens_; }

 private:
  // A pass with one row beside the guesses.
  static size_t MostGuesses(const Engine& engine) {
    return std::min(engine.tentative_rows(), engine.max_rows() - 1);
  }

  // Takes tokens from the logits of the last pass, row by row, as long as they are what was
  // guessed, and one more. The reason to stop, if there is one.
  std::optional<StopReason> Choose(std::span<float> logits, std::span<const TokenId> guesses) {
    const size_t vocabulary = engine_.vocabulary();
    size_t row = 0;
    std::optional<StopReason> reason;
    for (;; ++row) {
      const std::span<float> own = logits.subspan(row * vocabulary, vocabulary);
      if (options_.constraint != nullptr) options_.constraint->MaskLogits(own);
      const TokenId token = sampler_.Sample(own, history_);
      reason = Take(token);
      if (reason || row == guesses.size() || token != guesses[row]) break;
    }
    // What was guessed and taken is part of the text, the last token excepted.
    if (!guesses.empty()) engine_.Accept(sequence_, row);
    if (speculation_) speculation_->Checked(guesses.size(), row);
    return reason;
  }

  std::optional<StopReason> Take(TokenId token) {
    if (std::ranges::find(stop_tokens_, token) != stop_tokens_.end()) {
      return StopReason::kEndOfText;
    }
    tokens_.push_back(token);
    history_.push_back(token);
    if (options_.constraint != nullptr) options_.constraint->Accept(token);
    if (!on_token_(token)) return StopReason::kCaller;
    if (options_.constraint != nullptr && options_.constraint->Ended()) {
      return StopReason::kEndOfText;
    }
    if (tokens_.size() == options_.max_tokens) return StopReason::kMaxTokens;
    return std::nullopt;
  }

  std::vector<TokenId> Guess() {
    if (!speculation_) return {};
    const size_t room = std::min(sequence_.room(), options_.max_tokens - tokens_.size()) - 1;
    PassOutlook pass;
    return speculation_->Propose(history_, room, pass_cost_, pass);
  }

  void Pass(std::span<const TokenId> guesses, std::vector<float>& logits) {
    std::vector<PassRow> rows = {
        {.sequence = &sequence_, .token = tokens_.back(), .wants_logits = true}};
    for (const TokenId guess : guesses) {
      rows.push_back(
          {.sequence = &sequence_, .token = guess, .wants_logits = true, .tentative = true});
    }
    logits.resize(rows.size() * engine_.vocabulary());
    const auto start = std::chrono::steady_clock::now();
    engine_.Forward(rows, logits);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    pass_cost_.Saw(rows.size(), seconds.count());
  }

  Engine& engine_;
  Sequence& sequence_;
  const GenerationOptions& options_;
  const std::function<bool(TokenId)>& on_token_;
  Sampler sampler_;
  std::vector<TokenId> stop_tokens_;
  std::optional<Speculation> speculation_;
  PassCost pass_cost_;
  std::vector<TokenId> tokens_;
  std::vector<TokenId> history_;
};

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
  GenerationResult result;
  Answer answer(engine, sequence, options, on_token);
  try {
    result.reason = answer.Run(RunPrompt(engine, sequence, prompt, options));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) throw;
    result.reason = StopReason::kInterrupted;
  }
  result.tokens = std::move(answer.tokens());
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
