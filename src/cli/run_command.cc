// The run command: one prompt, one answer, streamed.
#include "cli/run_command.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/answer_printer.h"
#include "cli/interrupt.h"
#include "cli/npy_file.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompt_input.h"
#include "cli/result_file.h"
#include "cli/run_stats.h"
#include "kimi_k3/chat.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

// What the model is to continue.
struct Prompt {
  std::vector<TokenId> ids;
  std::optional<Channel> chat_start;  // set where the chat template was used
};

// Nothing where the prompt is given as ids.
std::optional<std::string> PromptText(const RunOptions& options, Output& output) {
  if (options.prompt_ids) return std::nullopt;
  std::string text =
      options.prompt_text ? *options.prompt_text : ReadPromptText(*options.prompt_file);
  if (text.empty()) Fail(ErrorKind::kUsage, "the prompt in {} is empty", *options.prompt_file);
  if (!IsValidUtf8(text)) {
    output.Note("the prompt is not valid UTF-8: each broken part is read as U+FFFD");
  }
  return text;
}

Prompt MakePrompt(const RunOptions& options, const std::optional<std::string>& text,
                  Engine& engine) {
  if (!text) return {.ids = *options.prompt_ids, .chat_start = {}};
  const Tokenizer& tokenizer = engine.tokenizer();
  if (options.raw) return {.ids = tokenizer.Encode(*text, SpecialText::kPlain), .chat_start = {}};
  ChatRequest request;
  if (options.system) request.messages.push_back(ChatMessage::System(*options.system));
  request.messages.push_back(ChatMessage::User(*text));
  request.thinking = !options.no_thinking;
  if (options.effort) request.effort = options.effort;
  RenderedChat chat = RenderChat(tokenizer, request);
  return {.ids = std::move(chat.ids), .chat_start = chat.start};
}

// Everything that can be known to go wrong before the first position is computed.
void CheckPrompt(const Prompt& prompt, const RunOptions& options, const Engine& engine,
                 Output& output) {
  const size_t length = prompt.ids.size();
  for (const TokenId token : prompt.ids) {
    if (static_cast<size_t>(token) >= engine.vocabulary()) {
      Fail(ErrorKind::kUsage, "token id {} is outside the model's vocabulary of {}", token,
           engine.vocabulary());
    }
  }
  if (length > engine.context()) {
    Fail(ErrorKind::kUsage,
         "the prompt has {} tokens, but the context has only {} positions: ask for more (-c {})",
         length, engine.context(), length + std::min<size_t>(options.max_tokens, 256));
  }
  // The last token that is generated needs no position.
  const size_t room = engine.context() - length + 1;
  if (options.max_tokens > room) {
    output.Note(fmt::format("the context has room for {} of the {} tokens asked for (see -c)", room,
                            options.max_tokens));
  }
}

std::unique_ptr<AnswerPrinter> MakePrinter(const RunOptions& options, Engine& engine,
                                           const Prompt& prompt, Output& output) {
  if (options.print_ids) return MakeIdPrinter(output);
  if (!engine.has_tokenizer()) {
    if (!options.stop.empty()) {
      Fail(ErrorKind::kUsage,
           "--stop looks for text, but the model's folder has no tiktoken.model to make text with");
    }
    output.Note("no tiktoken.model in the model's folder: printing token ids");
    return MakeIdPrinter(output);
  }
  // A text that goes on after its end has no channels to follow.
  if (prompt.chat_start && !options.ignore_eos) {
    return MakeChatPrinter(output, engine.tokenizer(), *prompt.chat_start, options.hide_thinking,
                           options.stop);
  }
  return MakeTextPrinter(output, engine.tokenizer(), options.stop);
}

// One prompt on its way through the model.
class Run {
 public:
  Run(const RunOptions& options, Engine& engine, const Prompt& prompt, Output& output)
      : options_(options),
        engine_(engine),
        prompt_(prompt),
        output_(output),
        printer_(MakePrinter(options, engine, prompt, output)),
        sequence_(engine.NewSequence()),
        max_tokens_(std::min(options.max_tokens, engine.context() - prompt.ids.size() + 1)) {
    if (!options.logits_file) return;
    const uint64_t bytes = uint64_t{prompt.ids.size()} * engine.vocabulary() * sizeof(float);
    CheckResultFile("--logits", *options.logits_file, bytes);
    logits_file_.emplace(*options.logits_file, prompt.ids.size(), engine.vocabulary());
  }

  StopReason Execute() {
    Progress progress(engine_, output_, prompt_.ids.size(), max_tokens_);
    RunStats stats(engine_, prompt_.ids.size());
    try {
      const StopReason reason = Stream(progress, stats);
      output_.ClearStatus();
      printer_->Finish();
      stats.Finish(generated_, StopReasonName(reason));
      output_.Note(stats.Summary());
      WriteStats(stats);
      return reason;
    } catch (const Error& error) {
      Salvage(stats, error);
      throw;
    }
  }

 private:
  StopReason Stream(Progress& progress, RunStats& stats) {
    GenerationOptions generation = {.max_tokens = options_.max_tokens,
                                    .sampling = options_.sampling,
                                    .ignore_eos = options_.ignore_eos,
                                    .on_prompt_logits = {},
                                    .on_prompt_progress = {}};
    if (logits_file_) {
      generation.on_prompt_logits = [&](size_t, std::span<const float> row) {
        logits_file_->AppendRow(row);
      };
    }
    generation.on_prompt_progress = [&](size_t done) {
      progress.PromptProgress(done);
      stats.PromptProgress(done);
      if (logits_file_ && done == prompt_.ids.size()) logits_file_->Commit();
    };
    bool ended = false;
    const GenerationResult result =
        Generate(engine_, sequence_, prompt_.ids, generation, [&](TokenId token) {
          ++generated_;
          progress.Token();
          const AnswerState state = printer_->Append(token);
          ended = state == AnswerState::kEnded;
          return state == AnswerState::kGoesOn;
        });
    return ended ? StopReason::kEndOfText : result.reason;
  }

  void WriteStats(const RunStats& stats) const {
    if (options_.stats_file) stats.Write(*options_.stats_file);
  }

  // What was generated before the failure is shown, and what it cost is written.
  void Salvage(RunStats& stats, const Error& error) {
    try {
      output_.ClearStatus();
      if (!output_.broken()) printer_->Finish();
      stats.Finish(generated_, "failed", error.what());
      WriteStats(stats);
    } catch (const Error&) {  // the first failure is the one to tell
    }
  }

  const RunOptions& options_;
  Engine& engine_;
  const Prompt& prompt_;
  Output& output_;
  std::unique_ptr<AnswerPrinter> printer_;
  Sequence sequence_;
  size_t max_tokens_;
  size_t generated_ = 0;
  std::optional<NpyFile> logits_file_;
};

// A result may not take the place of a file of the model.
void KeepModelWhole(const char* flag, const std::optional<std::filesystem::path>& path,
                    const EngineOptions& engine) {
  std::error_code ignored;
  if (!path || !std::filesystem::exists(*path, ignored)) return;
  const auto target = std::filesystem::canonical(*path, ignored);
  std::vector<std::filesystem::path> folders = engine.more_model_dirs;
  folders.push_back(engine.model_dir);
  for (const auto& folder : folders) {
    if (std::filesystem::canonical(folder, ignored) != target.parent_path()) continue;
    Fail(ErrorKind::kUsage, "{}: {} is in the model's folder and would be replaced; name another",
         flag, path->string());
  }
}

}  // namespace

ExitCode RunCommand(const RunOptions& options) {
  CheckRunOptions(options);
  KeepModelWhole("--stats", options.stats_file, options.engine);
  KeepModelWhole("--logits", options.logits_file, options.engine);
  const InterruptGuard interrupts;
  Output output(options.quiet);
  for (const std::string& warning : RunOptionWarnings(options)) output.Note(warning);
  if (options.stats_file) CheckResultFile("--stats", *options.stats_file, 0);
  if (options.logits_file) CheckResultFile("--logits", *options.logits_file, 0);
  const std::optional<std::string> text = PromptText(options, output);
  output.Status("opening " + options.engine.model_dir.string());
  EngineOptions engine_options = options.engine;
  engine_options.all_prompt_logits = options.logits_file.has_value();
  Engine engine = Engine::Open(engine_options);
  output.Note(engine.Description());
  const Prompt prompt = MakePrompt(options, text, engine);
  CheckPrompt(prompt, options, engine, output);
  Run run(options, engine, prompt, output);
  const EngineInterrupt engine_interrupt(engine);
  const StopReason reason = run.Execute();
  return reason == StopReason::kInterrupted ? kExitInterrupted : kExitDone;
}

}  // namespace kimi_k3
