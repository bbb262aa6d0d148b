// A conversation: what is said goes to the model, lines that begin with a slash are commands.
#include "cli/chat_loop.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <random>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "cli/answer_printer.h"
#include "cli/answer_run.h"
#include "cli/chat_input.h"
#include "cli/conversation.h"
#include "cli/terminal_text.h"
#include "kimi_k3/session.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kHelp =
    "What you type goes to the model. A line that ends in \\ goes on in the next one; lines\n"
    "between \"\"\" and \"\"\" are taken as they stand. Ctrl-C stops an answer, Ctrl-D leaves.\n"
    "  /continue         go on with an answer that was stopped, or that -n cut\n"
    "  /system [TEXT]    show the system messages, or add one\n"
    "  /think show|hide  show or hide reasoning from now on\n"
    "  /reset            forget the conversation and begin anew\n"
    "  /save FILE        keep the conversation and its state in FILE\n"
    "  /load FILE        go on with the conversation in FILE\n"
    "  /stats            tokens, room and cost\n"
    "  /quit             leave\n";

// The first wish ends an answer between two passes.
constexpr int kWishesToStopAtOnce = 2;

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::string TextOf(const ChatMessage& message) {
  std::string text;
  for (const ContentPart& part : message.content) text += part.text;
  return text;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

ChatLoop::ChatLoop(const ChatOptions& options, Engine& engine, SessionKeeper* keeper,
                   LineReader& reader, Output& output, InterruptGuard& interrupts)
    : options_(options),
      engine_(engine),
      keeper_(keeper),
      reader_(reader),
      output_(output),
      interrupts_(interrupts),
      sequence_(engine.NewSequence()),
      hide_thinking_(options.hide_thinking) {
  engine.tokenizer();  // a model without one cannot chat
  Restart();
}

void ChatLoop::Restart() {
  sequence_.Reset();
  note_ = {};
  note_.thinking = !options_.no_thinking;
  if (options_.effort) note_.effort = options_.effort;
  if (options_.system) note_.messages.push_back(ChatMessage::System(*options_.system));
  note_.sampling = options_.sampling;
  if (!options_.seed_given) note_.sampling.seed = RandomSeed();
  note_.stop = options_.stop;
  note_.max_tokens = options_.max_tokens;
}

void ChatLoop::Adopt(SessionNote note, const std::filesystem::path& path) {
  if (!note.chat_start) {
    Fail(ErrorKind::kUsage, "{}: this session is a text without the chat format: go on with run",
         path.string());
  }
  const auto refuse_if = [&path](bool differs, const char* what) {
    if (!differs) return;
    Fail(ErrorKind::kUsage, "{} was begun with {}: leave it out, or name another file",
         path.string(), what);
  };
  refuse_if(options_.no_thinking && note.thinking, "thinking on, not --no-thinking");
  refuse_if(options_.effort && options_.effort != note.effort, "another --effort");
  LoadSession(engine_, sequence_, path);
  for (const TokenId token : note.text) {
    if (static_cast<size_t>(token) < engine_.vocabulary()) continue;
    Fail(
        ErrorKind::kIo,
        "{}: this session is damaged: token {} is none of the model's; bring back a copy of it, or "
        "begin another one",
        path.string(), token);
  }
  note_ = std::move(note);
  if (options_.take_given_sampling) options_.take_given_sampling(note_.sampling);
  if (!options_.stop.empty()) note_.stop = options_.stop;
  const auto of_user = std::ranges::count(note_.messages, ChatRole::kUser, &ChatMessage::role);
  output_.Note(fmt::format("{}: {} message{} of yours, {} tokens of {} positions", path.string(),
                           of_user, of_user == 1 ? "" : "s", note_.text.size(), engine_.context()));
}

ExitCode ChatLoop::Run() {
  if (note_.chat_start && note_.stop_reason.empty()) Answer(true);
  if (PersonTypes()) output_.Note("/help lists the commands");
  ChatInput input(reader_);
  for (;;) {
    const int signal = InterruptGuard::LastSignal();
    if (signal == SIGTERM || signal == SIGHUP) return kExitInterrupted;
    interrupts_.Forget();
    engine_.ClearInterrupt();
    const Line line = input.Next();
    if (line.kind == LineKind::kEnd) {
      if (input.unfinished() && !PersonTypes()) {
        TellFailure(Error(ErrorKind::kUsage,
                          "the input ends within a message (after a backslash or \"\"\"), which is "
                          "left out"));
      }
      return Outcome();
    }
    if (line.kind == LineKind::kInterrupted) {
      if (!PersonTypes()) return kExitInterrupted;
      continue;
    }
    if (!Handle(line)) return Outcome();
  }
}

bool ChatLoop::GoesOnAfter(const Error& error) const {
  return !output_.broken() && sequence_.intact() &&
         (error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kIo ||
          error.kind() == ErrorKind::kCheckpoint);
}

bool ChatLoop::Handle(const Line& line) {
  try {
    if (!line.verbatim && line.text.starts_with('/')) return Command(Trimmed(line.text));
    if (!Trimmed(line.text).empty()) Say(line.text);
  } catch (const Error& error) {
    if (!GoesOnAfter(error)) throw;
    TellFailure(error);
  }
  return true;
}

void ChatLoop::TellFailure(const Error& error) {
  output_.Problem(error.what());
  refused_ = refused_ || !PersonTypes();
}

ExitCode ChatLoop::Outcome() const {
  return outcome_ == kExitDone && refused_ ? kExitRunFailed : outcome_;
}

bool ChatLoop::Command(std::string_view line) {
  const size_t space = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, space);
  const std::string_view argument = Trimmed(line.substr(space));
  if (name == "/quit" || name == "/exit") return false;
  if (name == "/help") {
    output_.Text(kHelp);
  } else if (name == "/continue") {
    Continue();
  } else if (name == "/system") {
    System(std::string(argument));
  } else if (name == "/reset") {
    Reset(argument);
  } else if (name == "/think") {
    Think(argument);
  } else if (name == "/save") {
    Save(argument);
  } else if (name == "/load") {
    Load(argument);
  } else if (name == "/stats") {
    ShowStats();
  } else {
    Fail(ErrorKind::kUsage,
         "there is no command {}; /help lists them (a blank before the slash "
         "makes it a message)",
         ReplaceInvalidUtf8(name.substr(0, 40)));
  }
  return true;
}

void ChatLoop::Say(const std::string& message) {
  SessionNote asked = note_;
  FoldAnswer(asked, engine_.tokenizer());
  if (!IsValidUtf8(message)) {
    output_.Note("this is not valid UTF-8: each broken part is read as U+FFFD");
  }
  asked.max_tokens = options_.max_tokens;
  AskInChat(asked, engine_.tokenizer(), message);
  if (asked.text.size() > engine_.context()) {
    if (note_.text.empty()) {
      Fail(ErrorKind::kUsage,
           "the message has {} tokens, but the context only {} positions: begin the chat with more "
           "(-c {})",
           asked.text.size(), engine_.context(), asked.text.size() + kRoomForAnAnswer);
    }
    Fail(ErrorKind::kUsage,
         "with this message the conversation has {} tokens, but the context only {} positions: "
         "/reset{} begins anew; {} and a larger -c goes on",
         asked.text.size(), engine_.context(), keeper_ != nullptr ? " yes" : "",
         keeper_ != nullptr ? "the same --session" : "/save, then chat with --session");
  }
  note_ = std::move(asked);
  Answer(false);
}

void ChatLoop::Answer(bool resumed) {
  const std::unique_ptr<AnswerPrinter> printer =
      MakeChatPrinter(output_, engine_.tokenizer(), *note_.chat_start, hide_thinking_, note_.stop);
  AnswerRun run(engine_, sequence_, note_, *printer, output_,
                {.keeper = keeper_,
                 .resumed = resumed,
                 .stop_between_passes = true,
                 .resumed_by = "the next chat with it",
                 .logits = nullptr,
                 .stats_file = options_.stats_file});
  const EngineInterrupt second_wish(engine_, kWishesToStopAtOnce);
  try {
    run.Execute();
    outcome_ = kExitDone;  // the session has all of it, whatever failed before
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) outcome_ = kExitIo;
    throw;
  }
  ++answers_;
  last_summary_ = run.Summary();
}

void ChatLoop::Continue() {
  const bool asked =
      note_.chat_start && !note_.messages.empty() && note_.messages.back().role == ChatRole::kUser;
  if (!asked) Fail(ErrorKind::kUsage, "there is no answer to go on with");
  SessionNote note = note_;
  if (note.stop_reason == StopReasonName(StopReason::kMaxTokens)) {
    note.max_tokens = note.answer().size() + options_.max_tokens;
  }
  if (note.complete(engine_.context())) {
    Fail(ErrorKind::kUsage, "{}",
         note.text.size() > engine_.context()
             ? "the context is full (see -c)"
             : "the answer is complete; say what you want to know more");
  }
  note.stop_reason.clear();
  note_ = std::move(note);
  Answer(false);
}

void ChatLoop::System(const std::string& text) {
  if (text.empty()) {
    for (const ChatMessage& message : note_.messages) {
      if (message.role == ChatRole::kSystem) output_.Text(TextOf(message) + "\n");
    }
    return;
  }
  FoldAnswer(note_, engine_.tokenizer());
  note_.messages.push_back(ChatMessage::System(text));
  output_.Note(answers_ == 0 ? "it stands before your first message"
                             : "it stands before your next message");
}

void ChatLoop::Reset(std::string_view argument) {
  if (!argument.empty() && argument != "yes") {
    Fail(ErrorKind::kUsage, "/reset takes no argument but yes");
  }
  if (keeper_ != nullptr && keeper_->exists() && argument != "yes") {
    Fail(ErrorKind::kUsage,
         "the next answer would replace the conversation in {}: /save FILE keeps a copy, "
         "/reset yes forgets it",
         keeper_->path().string());
  }
  Restart();
  answers_ = 0;
  output_.Note("a new conversation");
}

void ChatLoop::Think(std::string_view argument) {
  if (argument != "show" && argument != "hide") {
    Fail(ErrorKind::kUsage, "/think show or /think hide; reasoning is {} now",
         hide_thinking_ ? "hidden" : "shown");
  }
  hide_thinking_ = argument == "hide";
}

void ChatLoop::Save(std::string_view file) {
  if (file.empty()) Fail(ErrorKind::kUsage, "/save needs the name of a file");
  const std::filesystem::path path(file);
  if (!note_.chat_start) Fail(ErrorKind::kUsage, "there is nothing to save yet");
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    Fail(ErrorKind::kUsage, "{} is there already: name another file", path.string());
  }
  // Without a state the text alone is kept, and computed anew by whoever goes on.
  if (!sequence_.intact()) sequence_.Reset();
  const uint64_t bytes =
      SaveSession(engine_, sequence_, path, WriteSessionNote(note_, sequence_.tokens().size()));
  output_.Note(fmt::format("saved {} tokens in {} ({})", note_.text.size(), path.string(),
                           FormatByteSize(bytes)));
}

void ChatLoop::Load(std::string_view file) {
  if (file.empty()) Fail(ErrorKind::kUsage, "/load needs the name of a file");
  if (keeper_ != nullptr) {
    Fail(ErrorKind::kUsage,
         "this chat is kept in {}, which the next answer would replace: chat with --session {}",
         keeper_->path().string(), std::string(file));
  }
  const std::filesystem::path path(file);
  const SessionInfo info = ReadSessionInfo(path);
  SessionNote note = ReadSessionNote(info, path);
  if (info.tokens.size() > engine_.context()) {
    Fail(ErrorKind::kUsage, "{} has {} tokens, but the context only {} positions (see -c)",
         path.string(), info.tokens.size(), engine_.context());
  }
  const size_t seen = sequence_.tokens().size();
  try {
    Adopt(std::move(note), path);
  } catch (const Error& error) {
    if (!GoesOnAfter(error)) throw;
    TellFailure(error);
    // Its state may be gone with the attempt, its text is not.
    output_.Note(sequence_.tokens().size() == seen
                     ? "the conversation before goes on"
                     : "the conversation before goes on; its text goes through the model anew");
  }
}

void ChatLoop::ShowStats() {
  const ProcessReading process = ReadProcessMeters();
  output_.Text(fmt::format(
      "{} answer{}; {} tokens of {} positions, {} of them in the state; {} of {} in memory\n",
      answers_, answers_ == 1 ? "" : "s", note_.text.size(), engine_.context(),
      sequence_.tokens().size(), FormatByteSize(process.resident_bytes),
      FormatByteSize(engine_.memory_budget_bytes())));
  if (!last_summary_.empty()) output_.Text("last answer: " + last_summary_ + "\n");
  output_.Text(fmt::format("temperature {}, top-p {}, seed {}\n", note_.sampling.temperature,
                           note_.sampling.top_p, note_.sampling.seed));
}

}  // namespace kimi_k3
