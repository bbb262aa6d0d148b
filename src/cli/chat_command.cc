// The chat command: a conversation on the terminal, or through a pipe.
#include "cli/chat_command.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/chat_loop.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/model_flags.h"
#include "cli/output.h"
#include "cli/result_file.h"
#include "cli/sampling_flags.h"
#include "cli/session_keeper.h"
#include "cli/terminal_text.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

// The first wish to stop ends an answer between two passes, the second one in the middle of one.
constexpr int kPatience = 2;

}  // namespace

ExitCode RunChat(const ChatOptions& options) {
  CheckChatOptions(options);
  InterruptGuard interrupts(kPatience);
  Output output(options.quiet);
  if (options.stats_file) {
    KeepModelWhole("--stats", *options.stats_file, ModelFolders(options.engine));
    CheckResultFile("--stats", *options.stats_file, 0);
  }
  const std::unique_ptr<LineReader> reader =
      PersonTypes() ? MakeTerminalReader(options.history_file) : MakePipeReader();
  std::optional<SessionKeeper> keeper;
  std::optional<SavedSession> saved;
  if (options.session_file) {
    keeper.emplace(*options.session_file, options.session_every);
    saved = ReadSavedSession(*keeper);
  }
  EngineOptions engine_options = options.engine;
  engine_options.sessions = true;  // /save and /load
  output.Status(TextFor(STDERR_FILENO, "opening " + options.engine.model_dir.string()));
  Engine engine = OpenForSession(engine_options, saved, keeper ? &*keeper : nullptr);
  output.Note(engine.Description());
  for (const std::string& warning : engine.warnings()) output.Warning(warning);
  ChatLoop loop(options, engine, keeper ? &*keeper : nullptr, *reader, output, interrupts);
  if (saved) loop.Adopt(std::move(saved->note), keeper->path());
  return loop.Run();
}

void AddChatCommand(CLI::App& app, ExitCode& code) {
  CLI::App& command =
      AddCommand(app, "chat", "A conversation: answers as you type, and state kept");
  const auto options = std::make_shared<ChatOptions>();
  AddChatOptions(command, *options);
  OnCommand(command, [&command, options, &code] {
    options->seed_given = SeedIsGiven(command);
    options->take_given_sampling = [&command, options = options.get()](SamplingOptions& sampling) {
      TakeGivenSampling(command, options->sampling, sampling);
    };
    code = RunChat(*options);
  });
}

}  // namespace kimi_k3
