// What a run with --session goes on with, and whether it may.
#include "cli/run_session.h"

#include <fmt/ranges.h>

#include <utility>

#include "base/error.h"
#include "cli/conversation.h"
#include "kimi_k3/chat.h"

namespace kimi_k3 {
namespace {

bool SameSampling(const SamplingOptions& a, const SamplingOptions& b) {
  return a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p &&
         a.min_p == b.min_p && a.repeat_penalty == b.repeat_penalty &&
         a.repeat_last == b.repeat_last && a.seed == b.seed;
}

// A resumed answer goes on as it began.
void CheckResume(const RunOptions& options, const SessionNote& note, const std::string& name,
                 const std::optional<std::string>& prompt) {
  const auto refuse_if = [&name](bool differs, const char* what) {
    if (!differs) return;
    Fail(ErrorKind::kUsage,
         "--resume: {} was begun with {}: leave it out, or begin another session", name, what);
  };
  refuse_if(prompt && *prompt != note.prompt, "another prompt");
  refuse_if(!SameSampling(options.sampling, SamplingOptions{}) &&
                !SameSampling(options.sampling, note.sampling),
            "other sampling flags");
  refuse_if(!options.stop.empty() && options.stop != note.stop, "other --stop texts");
  refuse_if(options.ignore_eos && !note.ignore_eos, "no --ignore-eos");
  refuse_if(options.raw && note.chat_start, "the chat format, not --raw");
  refuse_if(options.no_thinking && note.thinking, "thinking on");
  refuse_if(options.effort && options.effort != note.effort, "another --effort");
}

// A new prompt goes on with the conversation, or the text, that is there.
void CheckContinuation(const RunOptions& options, const SessionNote& note,
                       const std::string& name) {
  if (!note.finished()) {
    Fail(ErrorKind::kUsage,
         "{} holds an answer that is not finished ({} tokens so far), which a new prompt would "
         "lose: finish it with --resume, or name another file",
         name, note.answer().size());
  }
  const bool chat = note.chat_start.has_value();
  const auto refuse_if = [&name](bool differs, const char* what) {
    if (differs) Fail(ErrorKind::kUsage, "{} {}: leave it out, or name another file", name, what);
  };
  refuse_if(chat && options.raw, "is a conversation, which --raw does not go on with");
  refuse_if(chat && options.prompt_ids.has_value(),
            "is a conversation, which --token-ids does not go on with");
  refuse_if(options.system.has_value(), "has begun already, and --system belongs to the beginning");
  refuse_if(options.no_thinking && note.thinking, "was begun with thinking on, not --no-thinking");
  refuse_if(options.effort && options.effort != note.effort, "was begun with another --effort");
}

}  // namespace

std::optional<SavedSession> ReadSavedSession(const SessionKeeper& keeper) {
  if (!keeper.exists()) return std::nullopt;
  SavedSession saved = {.info = ReadSessionInfo(keeper.path()), .note = {}};
  saved.note = ReadSessionNote(saved.info, keeper.path());
  return saved;
}

Engine OpenForSession(EngineOptions options, const std::optional<SavedSession>& saved,
                      const SessionKeeper* keeper) {
  if (!saved || options.context != 0) return Engine::Open(options);
  options.context = saved->info.context;
  try {
    return Engine::Open(options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kBudget) throw;
    Fail(error.kind(),
         "{}: this session was begun with a context of {} positions, and goes on with them unless "
         "-c "
         "says otherwise: {}",
         keeper->path().string(), saved->info.context, error.what());
  }
}

void CheckSessionUse(const RunOptions& options, const SessionKeeper& keeper,
                     const std::optional<SavedSession>& saved,
                     const std::optional<std::string>& prompt) {
  const std::string name = keeper.path().string();
  if (!saved) {
    if (prompt) return;
    Fail(ErrorKind::kUsage, "{}: there is no such session yet: give a prompt to begin one{}", name,
         options.resume ? ", or the file that --resume shall go on with" : "");
  }
  if (options.resume) return CheckResume(options, saved->note, name, prompt);
  if (!prompt) {
    Fail(ErrorKind::kUsage,
         "{} is there already: --resume goes on with its answer, -p TEXT asks more", name);
  }
  CheckContinuation(options, saved->note, name);
}

SessionNote ResumedNote(const RunOptions& options, SessionNote saved) {
  if (options.max_tokens_given) saved.max_tokens = options.max_tokens;
  return saved;
}

SessionNote PromptedNote(const RunOptions& options, const std::optional<std::string>& text,
                         const std::optional<SavedSession>& saved, const Engine& engine) {
  SessionNote note;
  if (saved) note = saved->note;
  note.max_tokens = options.max_tokens;
  note.sampling = options.sampling;
  note.stop = options.stop;
  note.ignore_eos = options.ignore_eos;
  note.stop_reason.clear();
  const bool raw = saved ? !saved->note.chat_start : options.raw || !text;
  if (!raw) {
    const Tokenizer& tokenizer = engine.tokenizer();
    if (saved) {
      FoldAnswer(note, tokenizer);
    } else {
      if (options.system) note.messages.push_back(ChatMessage::System(*options.system));
      note.thinking = !options.no_thinking;
      if (options.effort) note.effort = options.effort;
    }
    AskInChat(note, tokenizer, *text, options.json_schema.value_or(""));
    return note;
  }
  note.prompt = text ? *text : IdsText(*options.prompt_ids);
  const std::vector<TokenId> more =
      text ? engine.tokenizer().Encode(*text, SpecialText::kPlain) : *options.prompt_ids;
  note.text.insert(note.text.end(), more.begin(), more.end());
  note.answer_begin = note.text.size();
  return note;
}

std::string IdsText(const std::vector<TokenId>& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

}  // namespace kimi_k3
