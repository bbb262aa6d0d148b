// The run command: one prompt, one answer, streamed.
#include "cli/run_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "cli/answer_printer.h"
#include "cli/interrupt.h"
#include "cli/npy_file.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_stats.h"
#include "kimi_k3/chat.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

// A million positions at the longest token, and far more than anyone waits for.
constexpr uint64_t kPromptLimitBytes = uint64_t{1} << 28;

// What the model is to continue.
struct Prompt {
  std::vector<TokenId> ids;
  std::optional<Channel> chat_start;  // set where the chat template was used
};

std::string PromptText(const RunOptions& options) {
  if (options.prompt_text) return *options.prompt_text;
  if (*options.prompt_file == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  return ReadWholeFile(*options.prompt_file, kPromptLimitBytes);
}

Prompt MakePrompt(const RunOptions& options, Engine& engine) {
  if (options.prompt_ids) return {.ids = *options.prompt_ids, .chat_start = {}};
  const std::string text = PromptText(options);
  if (text.empty()) Fail(ErrorKind::kUsage, "the prompt is empty");
  const Tokenizer& tokenizer = engine.tokenizer();
  if (options.raw) return {.ids = tokenizer.Encode(text, SpecialText::kPlain), .chat_start = {}};
  ChatRequest request;
  if (!options.system.empty()) request.messages.push_back(ChatMessage::System(options.system));
  request.messages.push_back(ChatMessage::User(text));
  request.thinking = !options.no_thinking;
  request.effort = options.effort;
  RenderedChat chat = RenderChat(tokenizer, request);
  return {.ids = std::move(chat.ids), .chat_start = chat.start};
}

bool HasTokenizer(const RunOptions& options) {
  return std::filesystem::exists(options.engine.model_dir / "tiktoken.model");
}

std::unique_ptr<AnswerPrinter> MakePrinter(const RunOptions& options, Engine& engine,
                                           const Prompt& prompt, Output& output) {
  if (!options.print_ids && !HasTokenizer(options)) {
    output.Note("no tiktoken.model in the model's folder: printing token ids");
  }
  if (options.print_ids || !HasTokenizer(options)) {
    if (!options.stop.empty()) {
      Fail(ErrorKind::kUsage, "--stop needs text, but token ids are printed");
    }
    return MakeIdPrinter(output);
  }
  // A text that goes on after its end has no channels to follow.
  if (prompt.chat_start && !options.ignore_eos) {
    return MakeChatPrinter(output, engine.tokenizer(), *prompt.chat_start, options.hide_thinking,
                           options.stop);
  }
  return MakeTextPrinter(output, engine.tokenizer(), options.stop);
}

void CheckTokens(const Prompt& prompt, const Engine& engine) {
  for (const TokenId token : prompt.ids) {
    if (static_cast<size_t>(token) >= engine.vocabulary()) {
      Fail(ErrorKind::kUsage, "token id {} is outside the model's vocabulary of {}", token,
           engine.vocabulary());
    }
  }
}

}  // namespace

ExitCode RunCommand(const RunOptions& options) {
  CheckRunOptions(options);
  Output output(options.quiet);
  Engine engine = Engine::Open(options.engine);
  output.Note(engine.Description());
  const InterruptGuard interrupts(engine);
  const Prompt prompt = MakePrompt(options, engine);
  CheckTokens(prompt, engine);
  const std::unique_ptr<AnswerPrinter> printer = MakePrinter(options, engine, prompt, output);

  Sequence sequence = engine.NewSequence();
  Progress progress(engine, output, prompt.ids.size(), options.max_tokens);
  RunStats stats(engine);
  GenerationOptions generation = {.max_tokens = options.max_tokens,
                                  .sampling = options.sampling,
                                  .ignore_eos = options.ignore_eos,
                                  .on_prompt_logits = {},
                                  .on_prompt_progress = {}};
  std::optional<NpyFile> logits_file;
  if (options.logits_file) {
    logits_file.emplace(*options.logits_file, prompt.ids.size(), engine.vocabulary());
    generation.on_prompt_logits = [&](size_t, std::span<const float> row) {
      logits_file->AppendRow(row);
    };
  }
  generation.on_prompt_progress = [&](size_t done) {
    progress.PromptDone(done);
    if (done < prompt.ids.size()) return;
    stats.PromptDone(done);
    if (logits_file) logits_file->Commit();
  };
  const GenerationResult result =
      Generate(engine, sequence, prompt.ids, generation, [&](TokenId token) {
        progress.Token();
        return printer->Append(token);
      });
  output.ClearStatus();
  printer->Finish();
  stats.GenerationDone(result);
  output.Note(stats.Summary());
  if (options.stats_file) stats.Write(*options.stats_file);
  return result.reason == StopReason::kInterrupted ? kExitInterrupted : kExitDone;
}

}  // namespace kimi_k3
