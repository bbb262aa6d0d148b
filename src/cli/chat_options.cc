// The options of the chat command.
#include "cli/chat_options.h"

#include "base/error.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/sampling_flags.h"
#include "cli/session_flags.h"
#include "cli/shared_flags.h"

namespace kimi_k3 {

void AddChatOptions(CLI::App& app, ChatOptions& options) {
  AddEngineFlags(app, options.engine);

  FlagGroup conversation(app, "Conversation");
  conversation.Text("--system", "TEXT", options.system, "A system message before the first one");
  conversation.Switch("--no-thinking", options.no_thinking,
                      "Ask for answers without reasoning first");
  AddEffortFlag(conversation, options.effort);
  conversation.Switch("--hide-thinking", options.hide_thinking,
                      "Show answers without their reasoning (/think changes it)");

  FlagGroup generation(app, "Generation");
  generation
      .Count("-n,--predict", "N", options.max_tokens,
             "Tokens of an answer at the most; without it as many as the context has room for", 1)
      .Default("");
  AddSamplingFlags(generation, options.sampling, "another one each time");
  AddDraftFlag(generation, options.engine.tentative_rows);
  AddStopFlag(generation, options.stop);

  FlagGroup session(app, "Session");
  AddSessionFlags(session, options.session_file, options.session_every);

  FlagGroup terminal(app, "Input and output");
  AddPathFlag(terminal, "--history", "FILE", options.history_file,
              "Keep what was typed in FILE, for the arrow keys of later chats");
  AddPathFlag(
      terminal, "--stats", "FILE.json", options.stats_file,
      "Write times, tokens and bytes of each answer, the last one in place of those before");
  terminal.Switch("-q,--quiet", options.quiet, "Nothing but answers, and errors");
}

bool SeedIsGiven(const CLI::App& app) { return IsGiven(app, "--seed"); }

void CheckChatOptions(const ChatOptions& options) {
  if (options.engine.model_dir.empty()) {
    Fail(ErrorKind::kUsage, "which model? Give the checkpoint's folder with -m DIR (see --help)");
  }
  if (options.no_thinking && options.effort) {
    Fail(ErrorKind::kUsage, "--effort says how much to think, --no-thinking not to: give one");
  }
  CheckSamplingOptions(options.sampling);
}

}  // namespace kimi_k3
