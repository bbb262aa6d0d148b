// What a run with --session goes on with, and whether it may.
#pragma once

#include <optional>
#include <string>

#include "cli/run_options.h"
#include "cli/session_keeper.h"
#include "cli/session_note.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {

// A session that is there already.
struct SavedSession {
  SessionInfo info;
  SessionNote note;
};

// The session of the keeper's file, where there is one. Throws what reading it throws.
std::optional<SavedSession> ReadSavedSession(const SessionKeeper& keeper);

// Opens the engine; with what is saved in the context that it was begun with, unless
// options.context says another. Throws as Engine::Open does; where that context cannot be had, it
// names the file.
Engine OpenForSession(EngineOptions options, const std::optional<SavedSession>& saved,
                      const SessionKeeper* keeper);

// Whether the run may go on with what is saved (or begin, where nothing is), before the model is
// opened. prompt: the words of this run's prompt, or its ids, where one was given. Throws
// Error(kUsage): --resume without a session or a prompt to begin with, an unfinished answer that a
// new prompt would lose, flags that contradict what was begun.
void CheckSessionUse(const RunOptions& options, const SessionKeeper& keeper,
                     const std::optional<SavedSession>& saved,
                     const std::optional<std::string>& prompt);

// --resume: the saved answer, with the limit of this run where one is given.
SessionNote ResumedNote(const RunOptions& options, SessionNote saved);

// A new prompt after a finished answer, or the first one: `text`, or options.prompt_ids.
SessionNote PromptedNote(const RunOptions& options, const std::optional<std::string>& text,
                         const std::optional<SavedSession>& saved, const Engine& engine);

// The ids as they are compared and kept: "1,2,3".
std::string IdsText(const std::vector<TokenId>& ids);

}  // namespace kimi_k3
