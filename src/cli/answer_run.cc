// One answer: what is left of its prompt goes through the model, then tokens come until something
// stops them; shown, counted and saved as they come.
#include "cli/answer_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

// A tag is shorter; a model that writes longer ones is not waited for.
constexpr size_t kMostTokensToTagEnd = 16;

bool BeginsWith(std::span<const TokenId> text, std::span<const TokenId> front) {
  return front.size() <= text.size() && std::equal(front.begin(), front.end(), text.begin());
}

}  // namespace

AnswerRun::AnswerRun(Engine& engine, Sequence& sequence, SessionNote& note, AnswerPrinter& printer,
                     Output& output, AnswerOptions options)
    : engine_(engine),
      sequence_(sequence),
      note_(note),
      printer_(printer),
      output_(output),
      options_(std::move(options)) {}

StopReason AnswerRun::Execute() {
  if (options_.resumed && note_.complete(engine_.context())) return ShowAgain();
  PrepareState();
  const size_t reused = sequence_.tokens().size();
  std::vector<TokenId> rest(note_.text.begin() + static_cast<ptrdiff_t>(reused), note_.text.end());
  // A state that has seen the whole prompt could not say what comes next: with nothing to generate
  // now, the last token is left to whoever goes on.
  if (note_.max_tokens == 0 && options_.keeper != nullptr) rest.pop_back();
  stats_.emplace(engine_, rest.size(), reused, note_.answer().size(), options_.keeper);
  try {
    if (options_.keeper != nullptr) {
      if (!options_.resumed) options_.keeper->Save(engine_, sequence_, note_);
      options_.keeper->BeginAnswer();
    }
    const size_t answered = note_.answer().size();
    StopReason reason = StopReason::kMaxTokens;
    if (Replay()) {
      reason = state_ == AnswerState::kEnded ? StopReason::kEndOfText : StopReason::kCaller;
    } else if (answered < note_.max_tokens || (answered == 0 && !rest.empty())) {
      reason = Stream(std::move(rest));
    }
    Close(reason);
    return reason;
  } catch (const Error& error) {
    Salvage(error);
    throw;
  }
}

StopReason AnswerRun::ShowAgain() {
  stats_.emplace(engine_, 0, sequence_.tokens().size(), note_.answer().size(), options_.keeper);
  Replay();
  printer_.Finish();
  const std::string reason = note_.stop_reason.empty()
                                 ? std::string(StopReasonName(StopReason::kContextFull))
                                 : note_.stop_reason;
  output_.Note(fmt::format("the answer was complete ({}): nothing was computed", reason));
  stats_->Finish(0, reason);
  if (options_.stats_file) stats_->Write(*options_.stats_file);
  return StopReason::kEndOfText;
}

void AnswerRun::PrepareState() {
  if (!sequence_.intact()) {
    sequence_.Reset();
    if (options_.keeper != nullptr && options_.keeper->exists()) {
      LoadSession(engine_, sequence_, options_.keeper->path());
    }
  }
  const size_t seen = sequence_.tokens().size();
  if (seen < note_.text.size() && BeginsWith(note_.text, sequence_.tokens())) return;
  sequence_.Reset();
  output_.Note("the state is of no use for this text: all of it goes through the model anew");
}

bool AnswerRun::Replay() {
  for (const TokenId token : note_.answer()) {
    state_ = printer_.Append(token);
    if (state_ != AnswerState::kGoesOn) return true;
  }
  return false;
}

StopReason AnswerRun::Stream(std::vector<TokenId> rest) {
  const size_t room = engine_.context() - note_.text.size() + 1;
  const size_t left = note_.max_tokens - std::min(note_.max_tokens, note_.answer().size());
  GenerationOptions generation = {.max_tokens = left,
                                  .sampling = note_.sampling,
                                  .ignore_eos = note_.ignore_eos,
                                  .constraint = options_.constraint,
                                  .on_prompt_logits = {},
                                  .on_prompt_progress = {}};
  if (options_.logits != nullptr) {
    generation.on_prompt_logits = [this](size_t, std::span<const float> row) {
      options_.logits->AppendRow(row);
    };
  }
  generation.on_prompt_progress = [this, all = rest.size()](size_t done) {
    AfterPromptPiece(done, all);
  };
  const std::unique_ptr<Drafter> drafter =
      engine_.tentative_rows() > 0 ? MakeNgramDrafter() : nullptr;
  generation.drafter = drafter.get();
  progress_.emplace(engine_, output_, rest.size(), std::min(left, room));
  if (options_.stop_between_passes) {
    progress_->AnswerWishToStop("stopping when this pass is done; Ctrl-C again stops at once");
  }
  const GenerationResult result = Generate(engine_, sequence_, rest, generation,
                                           [this](TokenId token) { return TakeToken(token); });
  if (interrupted_) return StopReason::kInterrupted;
  return state_ == AnswerState::kEnded ? StopReason::kEndOfText : result.reason;
}

void AnswerRun::AfterPromptPiece(size_t done, size_t all) {
  progress_->PromptProgress(done);
  stats_->PromptProgress(done);
  if (done == all) {
    if (options_.logits != nullptr) options_.logits->Commit();
    return;
  }
  if (options_.keeper != nullptr) {
    options_.keeper->TrySave(engine_, sequence_, note_, output_);
  }
  if (options_.stop_between_passes && InterruptGuard::Requested()) {
    Fail(ErrorKind::kInterrupted, "interrupted");
  }
}

bool AnswerRun::TakeToken(TokenId token) {
  note_.text.push_back(token);
  ++generated_;
  progress_->Token();
  state_ = printer_.Append(token);
  if (state_ != AnswerState::kGoesOn) return false;
  if (options_.keeper != nullptr && options_.keeper->CountToken()) {
    options_.keeper->TrySave(engine_, sequence_, note_, output_);
  }
  if (!options_.stop_between_passes || !InterruptGuard::Requested()) return true;
  ++tokens_since_wish_;
  interrupted_ = ShouldStop();
  return !interrupted_;
}

bool AnswerRun::ShouldStop() const {
  return !note_.chat_start || note_.ignore_eos || tokens_since_wish_ > kMostTokensToTagEnd ||
         EndsBetweenTags(note_, engine_.tokenizer());
}

void AnswerRun::Close(StopReason reason) {
  progress_.reset();
  output_.ClearStatus();
  printer_.Finish();
  note_.stop_reason = StopReasonName(reason);
  WarnOfCut(reason);
  if (options_.keeper != nullptr && sequence_.intact()) {
    options_.keeper->TrySave(engine_, sequence_, note_, output_);
  }
  stats_->Finish(generated_, StopReasonName(reason));
  output_.Note(stats_->Summary());
  if (options_.stats_file) stats_->Write(*options_.stats_file);
  if (options_.keeper != nullptr && !options_.keeper->failure().empty()) {
    Fail(ErrorKind::kIo, "the session was not saved at the end: {}", options_.keeper->failure());
  }
}

void AnswerRun::WarnOfCut(StopReason reason) {
  const bool cut = reason == StopReason::kMaxTokens || reason == StopReason::kContextFull;
  if (cut && options_.constraint != nullptr) {
    output_.Warning(
        reason == StopReason::kMaxTokens
            ? fmt::format("cut before the JSON was whole: {} tokens were not enough (see -n)",
                          note_.max_tokens)
            : "cut before the JSON was whole: the context is full (see -c)");
    return;
  }
  if (!cut || note_.answer().empty() || !printer_.is_reasoning()) return;
  output_.Warning(
      reason == StopReason::kMaxTokens
          ? fmt::format("cut inside the reasoning, before any answer: {} tokens were not "
                        "enough (see -n)",
                        note_.max_tokens)
          : "cut inside the reasoning, before any answer: the context is full (see -c)");
}

// What was generated before the failure is shown, and what it cost is written.
void AnswerRun::Salvage(const Error& error) {
  try {
    progress_.reset();
    output_.ClearStatus();
    if (!output_.broken()) printer_.Finish();
    stats_->Finish(generated_, "failed", error.what());
    if (options_.keeper != nullptr && options_.keeper->exists()) {
      output_.Note(fmt::format("{} has what was saved before; {} goes on from there",
                               options_.keeper->path().string(), options_.resumed_by));
    }
    if (options_.stats_file) stats_->Write(*options_.stats_file);
  } catch (const Error&) {  // the first failure is the one to tell
  }
}

}  // namespace kimi_k3
