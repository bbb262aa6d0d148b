// One answer: what is left of its prompt goes through the model, then tokens come until something
// stops them; shown, counted and saved as they come.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cli/answer_printer.h"
#include "cli/npy_file.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_stats.h"
#include "cli/session_keeper.h"
#include "cli/session_note.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/error.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {

struct AnswerOptions {
  SessionKeeper* keeper = nullptr;  // where the session is kept, if it is
  bool resumed = false;             // the keeper's file already is as the text is now
  // A wish to stop waits until the pass in progress is done (and no tag is half written): then the
  // state stays whole. Else whoever holds an EngineInterrupt ends the pass.
  bool stop_between_passes = false;
  // What goes on from a saved session, for messages.
  std::string_view resumed_by = "--resume";
  NpyFile* logits = nullptr;               // takes the logits of the prompt
  OutputConstraint* constraint = nullptr;  // of a new answer; null: none
  std::optional<std::filesystem::path> stats_file = {};
};

class AnswerRun {
 public:
  // note: the text to be gone on with, which grows by what is generated. sequence: any state; where
  // the text begins with its tokens, only the rest is computed, else all. All must outlive this.
  AnswerRun(Engine& engine, Sequence& sequence, SessionNote& note, AnswerPrinter& printer,
            Output& output, AnswerOptions options);

  // Prints the answer so far (all there is of a resumed one that is complete) and what is
  // generated, sets note.stop_reason, writes the statistics. Throws what Generate and the output
  // throw; what was generated before that is shown, and the statistics are written. A session that
  // cannot be saved is an Error(kIo) at the end.
  StopReason Execute();

  // What it cost, in one line; after Execute.
  std::string Summary() const { return stats_->Summary(); }

 private:
  // An answer to which nothing can be added.
  StopReason ShowAgain();
  void PrepareState();
  // Shows what was generated before; whether the answer ends there.
  bool Replay();
  StopReason Stream(std::vector<TokenId> rest);
  void AfterPromptPiece(size_t done, size_t all);
  bool TakeToken(TokenId token);
  bool ShouldStop() const;
  void Close(StopReason reason);
  void Salvage(const Error& error);
  void WarnOfCut(StopReason reason);

  Engine& engine_;
  Sequence& sequence_;
  SessionNote& note_;
  AnswerPrinter& printer_;
  Output& output_;
  AnswerOptions options_;
  std::optional<Progress> progress_;
  std::optional<RunStats> stats_;
  size_t generated_ = 0;
  AnswerState state_ = AnswerState::kGoesOn;
  bool interrupted_ = false;
  size_t tokens_since_wish_ = 0;
};

}  // namespace kimi_k3
