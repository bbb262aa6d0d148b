// The run command: one prompt, one answer, streamed.
#include "cli/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/answer_printer.h"
#include "cli/answer_run.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/npy_file.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "cli/result_file.h"
#include "cli/run_session.h"
#include "cli/session_keeper.h"
#include "cli/terminal_text.h"
#include "kimi_k3/constraint.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/session.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

constexpr const char* kSchemaFlag = "--json-schema";

// Nothing where the prompt is given as ids.
std::optional<std::string> PromptText(const RunOptions& options, Output& output) {
  if (!options.prompt_text && !options.prompt_file) return std::nullopt;
  std::string text =
      options.prompt_text ? *options.prompt_text : ReadPromptText(*options.prompt_file);
  if (text.empty()) Fail(ErrorKind::kUsage, "the prompt in {} is empty", *options.prompt_file);
  if (!IsValidUtf8(text)) {
    output.Note("the prompt is not valid UTF-8: each broken part is read as U+FFFD");
  }
  return text;
}

// Everything that can be known to go wrong before the first position is computed.
void CheckTokens(const SessionNote& note, const Engine& engine) {
  for (const TokenId token : note.text) {
    if (static_cast<size_t>(token) >= engine.vocabulary()) {
      Fail(ErrorKind::kUsage, "token id {} is outside the model's vocabulary of {}", token,
           engine.vocabulary());
    }
  }
}

void CheckRoom(const SessionNote& note, const Engine& engine, Output& output) {
  const size_t length = note.text.size();
  const size_t left = note.max_tokens - std::min(note.max_tokens, note.answer().size());
  if (length > engine.context()) {
    Fail(ErrorKind::kUsage,
         "the prompt has {} tokens, but the context has only {} positions: ask for more (-c {})",
         length, engine.context(), length + std::min(left, kRoomForAnAnswer));
  }
  // The last token that is generated needs no position.
  const size_t room = engine.context() - length + 1;
  if (left > room) {
    output.Warning(
        fmt::format("the context has room for {} of the {} tokens asked for (see -c)", room, left));
  }
}

std::unique_ptr<AnswerPrinter> MakePrinter(const RunOptions& options, Engine& engine,
                                           const SessionNote& note, Output& output) {
  if (options.print_ids) return MakeIdPrinter(output);
  if (!engine.has_tokenizer()) {
    if (!note.stop.empty()) {
      Fail(ErrorKind::kUsage,
           "--stop looks for text, but the model's folder has no tiktoken.model to make text with");
    }
    output.Note("no tiktoken.model in the model's folder: printing token ids");
    return MakeIdPrinter(output);
  }
  // A text that goes on after its end has no channels to follow.
  if (note.chat_start && !note.ignore_eos) {
    return MakeChatPrinter(output, engine.tokenizer(), *note.chat_start, options.hide_thinking,
                           note.stop);
  }
  return MakeTextPrinter(output, engine.tokenizer(), note.stop);
}

// What --json-schema asks for; null: nothing.
std::unique_ptr<OutputConstraint> ConstraintOf(const RunOptions& options,
                                               const ConstraintMaker& constraints,
                                               const SessionNote& note) {
  if (!note.chat_start) return constraints.ForJson(*options.json_schema, kSchemaFlag);
  ChatRequest request;
  request.response_format = ResponseFormat::kJsonSchema;
  request.json_schema = *options.json_schema;
  return constraints.ForTurn(request, *note.chat_start);
}

// The prompt as a session remembers it.
std::optional<std::string> PromptWords(const RunOptions& options,
                                       const std::optional<std::string>& text) {
  if (options.prompt_ids) return IdsText(*options.prompt_ids);
  return text;
}

EngineOptions EngineOptionsOf(const RunOptions& options) {
  EngineOptions engine = options.engine;
  engine.all_prompt_logits = options.logits_file.has_value();
  engine.sessions = options.session_file.has_value();
  return engine;
}

}  // namespace

ExitCode RunCommand(const RunOptions& given) {
  CheckRunOptions(given);
  RunOptions options = given;
  if (options.json_schema_file) {
    options.json_schema = ReadPromptText(*options.json_schema_file);
    if (options.json_schema->empty()) {
      Fail(ErrorKind::kUsage, "--json-schema-file: {} is empty", *options.json_schema_file);
    }
  }
  const std::vector<std::filesystem::path> folders = ModelFolders(options.engine);
  if (options.stats_file) KeepModelWhole("--stats", *options.stats_file, folders);
  if (options.logits_file) KeepModelWhole("--logits", *options.logits_file, folders);
  const InterruptGuard interrupts;
  Output output(options.quiet);
  for (const std::string& warning : RunOptionWarnings(options)) output.Note(warning);
  if (options.stats_file) CheckResultFile("--stats", *options.stats_file, 0);
  if (options.logits_file) CheckResultFile("--logits", *options.logits_file, 0);
  std::optional<SessionKeeper> keeper;
  std::optional<SavedSession> saved;
  if (options.session_file) {
    keeper.emplace(*options.session_file, options.session_every);
    saved = ReadSavedSession(*keeper);
  }
  const std::optional<std::string> text = PromptText(options, output);
  if (keeper) CheckSessionUse(options, *keeper, saved, PromptWords(options, text));

  output.Status(TextFor(STDERR_FILENO, "opening " + options.engine.model_dir.string()));
  Engine engine = OpenForSession(EngineOptionsOf(options), saved, keeper ? &*keeper : nullptr);
  output.Note(engine.Description());
  for (const std::string& warning : engine.warnings()) output.Warning(warning);
  std::optional<ConstraintMaker> constraints;
  if (options.json_schema) {
    constraints.emplace(engine.tokenizer());
    constraints->ForJson(*options.json_schema, kSchemaFlag);  // refused before anything is computed
  }
  Sequence sequence = engine.NewSequence();
  if (saved) LoadSession(engine, sequence, keeper->path());
  const bool resumed = saved && options.resume;
  SessionNote note =
      resumed ? ResumedNote(options, saved->note) : PromptedNote(options, text, saved, engine);
  CheckTokens(note, engine);
  if (!resumed || !note.complete(engine.context())) CheckRoom(note, engine, output);
  const std::unique_ptr<AnswerPrinter> printer = MakePrinter(options, engine, note, output);
  std::optional<NpyFile> logits;
  if (options.logits_file) {
    const uint64_t bytes = uint64_t{note.text.size()} * engine.vocabulary() * sizeof(float);
    CheckResultFile("--logits", *options.logits_file, bytes);
    logits.emplace(*options.logits_file, note.text.size(), engine.vocabulary());
  }
  const std::unique_ptr<OutputConstraint> constraint =
      constraints ? ConstraintOf(options, *constraints, note) : nullptr;
  AnswerRun run(engine, sequence, note, *printer, output,
                {.keeper = keeper ? &*keeper : nullptr,
                 .resumed = resumed,
                 .stop_between_passes = keeper.has_value(),
                 .logits = logits ? &*logits : nullptr,
                 .constraint = constraint.get(),
                 .stats_file = options.stats_file});
  std::optional<EngineInterrupt> engine_interrupt;
  if (!keeper) engine_interrupt.emplace(engine);
  return run.Execute() == StopReason::kInterrupted ? kExitInterrupted : kExitDone;
}

void AddRunCommand(CLI::App& app, ExitCode& code) {
  CLI::App& command = AddCommand(app, "run", "The answer to a prompt: the same as no command");
  const auto options = std::make_shared<RunOptions>();
  AddRunOptions(command, *options);
  OnCommand(command, [options, &code] { code = RunCommand(*options); });
}

}  // namespace kimi_k3
