// A conversation: what is said goes to the model, lines that begin with a slash are commands.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cli/chat_options.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/run_session.h"
#include "cli/session_keeper.h"
#include "cli/session_note.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/error.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {

class ChatLoop {
 public:
  // keeper: null where the conversation is not kept in a file. All must outlive this.
  ChatLoop(const ChatOptions& options, Engine& engine, SessionKeeper* keeper, LineReader& reader,
           Output& output, InterruptGuard& interrupts);

  // Goes on with the session in `path`, whose note is `note`. Throws as LoadSession does, and
  // Error(kUsage) where it is no conversation.
  void Adopt(SessionNote note, const std::filesystem::path& path);

  // Finishes the answer that was on its way, if one was; then reads and answers until the input
  // ends, /quit, SIGTERM or SIGHUP.
  ExitCode Run();

 private:
  // Whether a mistake or a file that is bad leaves the conversation as it was.
  bool GoesOnAfter(const Error& error) const;
  // False where the chat ends.
  bool Handle(const Line& line);
  bool Command(std::string_view line);
  void Say(const std::string& message);
  // Goes on with the answer of the conversation as it stands.
  void Answer(bool resumed);
  // Goes on with an answer that was stopped or cut.
  void Continue();
  void Restart();
  void System(const std::string& text);
  void Reset(std::string_view argument);
  void Think(std::string_view argument);
  void Save(std::string_view file);
  void Load(std::string_view file);
  void ShowStats();
  // Of a line after which the chat goes on.
  void TellFailure(const Error& error);
  // Of the chat, should it end now.
  ExitCode Outcome() const;

  const ChatOptions& options_;
  Engine& engine_;
  SessionKeeper* keeper_;
  LineReader& reader_;
  Output& output_;
  InterruptGuard& interrupts_;
  Sequence sequence_;
  SessionNote note_;
  bool hide_thinking_;
  size_t answers_ = 0;
  ExitCode outcome_ = kExitDone;  // of the latest answer
  bool refused_ = false;          // a line that nobody is there to type again
  std::string last_summary_;
};

}  // namespace kimi_k3
