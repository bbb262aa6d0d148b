// A batch at work: keeps the scheduler busy with requests and writes results as they come.
#include "cli/batch_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "cli/interrupt.h"
#include "cli/plan_estimate.h"
#include "cli/progress.h"
#include "server/api_error.h"
#include "server/api_json.h"
#include "server/completion_request.h"

namespace kimi_k3 {
namespace {

using server::ApiError;

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::seconds kKeepEvery{2};
// Where no live line is seen, the same is told so often.
constexpr std::chrono::minutes kTellEvery{5};
constexpr uint64_t kMostWaitingBytes = uint64_t{1} << 20;
// Problems that are told one by one; the results have all of them.
constexpr size_t kMostTold = 20;

const char* AnswerPrefix(BatchKind kind) {
  switch (kind) {
    case BatchKind::kChat:
      return "chatcmpl-";
    case BatchKind::kText:
      return "cmpl-";
    case BatchKind::kScore:
      return "score-";
  }
  return "";
}

std::string Counted(size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

BatchRun::BatchRun(Engine& engine, const BatchInput& input, BatchOutput& results,
                   BatchJournal& journal, const BatchRunOptions& options, Output& output)
    : engine_(engine),
      input_(input),
      results_(results),
      journal_(journal),
      options_(options),
      output_(output),
      constraints_(engine.tokenizer()),
      bytes_before_(engine.counters().bytes_read()),
      results_before_(results.results()),
      refused_before_(results.unanswered()),
      // As many again wait, so that one that is free is taken at once.
      scheduler_(engine, {.sequences = options.sequences, .most_waiting = options.sequences}) {}

void BatchRun::Execute() {
  journal_.Start();
  while (true) {
    Submit();
    results_.Sync();
    if (running_.empty()) break;
    Write(finished_.Take(kTick));
    if (InterruptGuard::Requested()) Stop();
    KeepBegun(false);
    ShowStatus();
  }
  output_.ClearStatus();
  journal_.Remove();
  TellEnd();
}

void BatchRun::Submit() {
  while (next_ < input_.lines().size() && running_.size() < 2 * options_.sequences) {
    const size_t index = next_++;
    if (!results_.has(index)) SubmitLine(index);
    if (results_.waiting_bytes() > kMostWaitingBytes) results_.Sync();
  }
}

void BatchRun::SubmitLine(size_t index) {
  const BatchLine& line = input_.lines()[index];
  const auto read = input_.Read(index);
  if (const auto* problem = std::get_if<BatchProblem>(&read)) {
    BatchProblem told = *problem;
    told.message = fmt::format("line {}: {}", line.number, problem->message);
    if (results_.unanswered() < kMostTold) output_.Note(told.message);
    results_.Add(index, BatchProblemLine(line.id, told), false);
    return;
  }
  const auto& request = std::get<BatchRequest>(read);
  try {
    SubmitRequest(index, request);
  } catch (const ApiError& error) {
    Refuse(index, request, error);
  }
}

void BatchRun::Refuse(size_t index, const BatchRequest& request, const ApiError& error) {
  const BatchLine& line = input_.lines()[index];
  if (results_.unanswered() < kMostTold) {
    output_.Note(fmt::format("line {}: {}", line.number, error.what()));
  }
  results_.Add(index, BatchResultLine(line.id, request.custom_id, error.status(), ErrorJson(error)),
               false);
}

server::PreparedAnswer BatchRun::Prepare(size_t index, const BatchRequest& request) const {
  const BatchLine& line = input_.lines()[index];
  ServerOptions defaults = options_.defaults;
  // Requests that are the same but for their names get texts of their own.
  defaults.seed = BatchId::Of({fmt::format("{}", options_.seed), request.custom_id}).bits[0];
  const server::AnswerOrigin origin = {.id = AnswerPrefix(request.kind) + line.id.Hex(),
                                       .model = defaults.model_name,
                                       .approximations = defaults.approximations,
                                       .created = input_.changed(),
                                       .most_prompt_tokens = engine_.context()};
  const Tokenizer& tokenizer = engine_.tokenizer();
  switch (request.kind) {
    case BatchKind::kChat:
      return server::PrepareChatAnswer(
          tokenizer, constraints_, server::ParseChatCompletion(request.body, defaults), origin, {});
    case BatchKind::kText:
      return server::PrepareTextAnswer(tokenizer,
                                       server::ParseTextCompletion(request.body, defaults), origin);
    case BatchKind::kScore:
      break;
  }
  return server::PrepareScoreAnswer(tokenizer, server::ParseScore(request.body, defaults), origin);
}

void BatchRun::SubmitRequest(size_t index, const BatchRequest& request) {
  server::PreparedAnswer prepared = Prepare(index, request);
  if (prepared.stream) {
    throw ApiError(400, "invalid_value", "stream", "stream: results of a batch come whole");
  }
  TextRequest& text = prepared.request;
  // Probabilities of tokens that an earlier run chose are not kept.
  const bool kept = !text.likely_tokens && !text.score_from;
  if (kept) text.begun = journal_.TakeBegun(index);
  const BatchTextOrigin origin = {.index = index,
                                  .id = input_.lines()[index].id,
                                  .custom_id = request.custom_id,
                                  .prompt_tokens = text.prompt.size(),
                                  .begun = text.begun.size()};
  const size_t room = engine_.context() - text.prompt.size() + 1;
  const size_t most = std::min(text.max_tokens, room);
  auto consumer =
      std::make_shared<BatchText>(origin, std::move(prepared.answer), std::move(prepared.writer),
                                  kept ? &journal_ : nullptr, finished_);
  std::optional<Scheduler::Ticket> ticket;
  try {
    ticket = scheduler_.Submit(std::move(text), std::move(consumer));
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", "prompt", error.what());
  }
  if (!ticket) Fail(ErrorKind::kRun, "the scheduler takes no more texts");
  running_.emplace(index, Running{std::move(*ticket), origin.prompt_tokens, most});
}

void BatchRun::Write(const std::vector<FinishedText>& texts) {
  std::optional<Error> failure;
  for (const FinishedText& text : texts) {
    running_.erase(text.index);
    if (text.failure) {
      if (text.failure->kind() != ErrorKind::kInterrupted) failure = text.failure;
      continue;
    }
    prompt_tokens_ += text.prompt_tokens;
    result_bytes_ += text.line.size();
    results_.Add(text.index, text.line, true);
  }
  results_.Sync();
  if (!failure) return;
  scheduler_.Stop();
  KeepBegun(true);
  Fail(failure->kind(), "{}; {}; the same command goes on", failure->what(), results_.Standing());
}

void BatchRun::KeepBegun(bool now) {
  if (!now && Clock::now() - kept_ < kKeepEvery) return;
  journal_.Sync();
  kept_ = Clock::now();
}

void BatchRun::Stop() {
  scheduler_.Stop();
  Write(finished_.Take(std::chrono::milliseconds(0)));
  KeepBegun(true);
  output_.ClearStatus();
  Fail(ErrorKind::kInterrupted, "stopped: {}; the same command goes on", results_.Standing());
}

double BatchRun::RequestsDone() const {
  double done = static_cast<double>(results_.results());
  for (const auto& [index, text] : running_) {
    const TextProgress progress = text.ticket.progress();
    const size_t passed = progress.prompt_done + progress.generated;
    const size_t all = std::max<size_t>(text.prompt_tokens + text.most_tokens, 1);
    done += std::min(1.0, static_cast<double>(passed) / static_cast<double>(all));
  }
  return done;
}

void BatchRun::ShowStatus() {
  const bool live = output_.WantsStatus();
  if (!live && Clock::now() - shown_ < kTellEvery) return;
  shown_ = Clock::now();
  if (live) {
    output_.Status(StatusLine());
  } else {
    output_.Note(StatusLine());
  }
}

std::string BatchRun::StatusLine() const {
  const SchedulerStatus status = scheduler_.status();
  const double seconds = SecondsSince(start_);
  const uint64_t tokens = status.generated_tokens + status.scored_tokens;
  std::string line = fmt::format("{}, {} at once, layer {} of {}", results_.Standing(),
                                 status.running, status.layer, status.layers);
  if (tokens > 0) {
    const uint64_t bytes = status.engine.bytes_read() - bytes_before_;
    line += fmt::format(", {:.3g} tokens/s, {} read a token", static_cast<double>(tokens) / seconds,
                        FormatByteSize(bytes / tokens));
  }
  if (status.engine.state_bytes_written > 0) {
    line +=
        fmt::format(", {} of states written", FormatByteSize(status.engine.state_bytes_written));
  }
  const double before = static_cast<double>(results_before_);
  const double done = RequestsDone() - before;
  const double all = static_cast<double>(input_.lines().size()) - before;
  if (tokens > 0 && done > 0) {
    line += fmt::format(", at most {} left", FormatDuration((all - done) / done * seconds));
  }
  line += fmt::format(", {} of {} in memory", FormatByteSize(ReadProcessMeters().resident_bytes),
                      FormatByteSize(engine_.memory_budget_bytes()));
  return line;
}

BatchTotals BatchRun::Totals() const {
  return {.requests = input_.lines().size(),
          .done_before = results_before_,
          .done = results_.results() - results_before_,
          .unanswered = results_.unanswered(),
          .prompt_tokens = prompt_tokens_,
          .seconds = SecondsSince(start_),
          .result_bytes = result_bytes_,
          .scheduler = scheduler_.status()};
}

void BatchRun::TellEnd() const {
  const BatchTotals totals = Totals();
  const SchedulerStatus& status = totals.scheduler;
  const double seconds = totals.seconds;
  const uint64_t tokens = status.generated_tokens + status.scored_tokens;
  const uint64_t bytes = status.engine.bytes_read() - bytes_before_;
  const size_t refused_now = totals.unanswered - refused_before_;
  output_.Note(fmt::format("{}: {} done now, {} before, {} refused",
                           Counted(totals.requests, "request"), totals.done - refused_now,
                           totals.done_before - refused_before_, totals.unanswered));
  output_.Note(fmt::format(
      "{} of prompts, {} generated, {} scored in {} ({:.3g}/s); {}; read {}{}, wrote {}",
      Counted(prompt_tokens_, "token"), status.generated_tokens, status.scored_tokens,
      FormatEstimate(seconds), static_cast<double>(tokens) / std::max(seconds, 1e-9),
      status.engine.passes == 1 ? "1 pass" : fmt::format("{} passes", status.engine.passes),
      FormatByteSize(bytes),
      tokens == 0 ? "" : fmt::format(", {} a token", FormatByteSize(bytes / tokens)),
      FormatByteSize(result_bytes_)));
  if (const uint64_t written = status.engine.state_bytes_written; written > 0) {
    output_.Note(fmt::format(
        "states on disk: read {}, wrote {}{}; {} waited for them",
        FormatByteSize(status.engine.state_bytes_read), FormatByteSize(written),
        tokens == 0 ? "" : fmt::format(", {} a token", FormatByteSize(written / tokens)),
        FormatEstimate(status.engine.states_waited_seconds)));
  }
}

}  // namespace kimi_k3
