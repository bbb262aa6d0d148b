// What a run cost: times, tokens, bytes and faults of its two phases.
#include "cli/run_stats.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/file.h"
#include "cli/stats_json.h"

namespace kimi_k3 {
namespace {

double PerSecond(size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

RunStats::RunStats(const Engine& engine, size_t prompt_tokens, size_t reused_tokens,
                   size_t resumed_tokens, const SessionKeeper* keeper)
    : engine_(engine),
      phase_start_(Now()),
      prompt_tokens_(prompt_tokens),
      reused_tokens_(reused_tokens),
      resumed_tokens_(resumed_tokens),
      keeper_(keeper) {}

RunStats::Reading RunStats::Now() const {
  return {.time = std::chrono::steady_clock::now(),
          .process = ReadProcessMeters(),
          .engine = engine_.counters()};
}

RunStats::Phase RunStats::PhaseSince(const Reading& start, size_t tokens) const {
  const Reading now = Now();
  Phase phase = {.seconds = std::chrono::duration<double>(now.time - start.time).count(),
                 .tokens = tokens,
                 .engine = now.engine,
                 .process = now.process};
  phase.engine.passes -= start.engine.passes;
  phase.engine.rows -= start.engine.rows;
  phase.engine.barriers -= start.engine.barriers;
  phase.engine.tentative_rows -= start.engine.tentative_rows;
  phase.engine.accepted_rows -= start.engine.accepted_rows;
  phase.engine.trunk_bytes -= start.engine.trunk_bytes;
  phase.engine.expert_bytes -= start.engine.expert_bytes;
  phase.engine.head_bytes -= start.engine.head_bytes;
  phase.engine.embedding_bytes -= start.engine.embedding_bytes;
  phase.engine.read_calls -= start.engine.read_calls;
  phase.engine.expert_hits -= start.engine.expert_hits;
  phase.engine.expert_misses -= start.engine.expert_misses;
  phase.engine.compute_waited_seconds -= start.engine.compute_waited_seconds;
  phase.engine.reads_waited_seconds -= start.engine.reads_waited_seconds;
  phase.process.minor_faults -= start.process.minor_faults;
  phase.process.major_faults -= start.process.major_faults;
  phase.process.storage_read_bytes -= start.process.storage_read_bytes;
  return phase;
}

void RunStats::PromptProgress(size_t done) {
  prompt_done_ = done;
  if (!PromptIsDone()) return;
  prompt_ = PhaseSince(phase_start_, done);
  phase_start_ = Now();
}

void RunStats::Finish(size_t generated, std::string_view reason, std::string_view error) {
  generated_ = generated;
  stop_reason_ = reason;
  error_ = error;
  if (!PromptIsDone()) {
    prompt_ = PhaseSince(phase_start_, prompt_done_);
    return;
  }
  // The first token comes out of the prompt's last pass, each later one out of a pass of its own or
  // as a guess that proved right.
  const EngineCounters now = engine_.counters();
  decode_ = PhaseSince(phase_start_, now.passes - phase_start_.engine.passes + now.accepted_rows -
                                         phase_start_.engine.accepted_rows);
}

std::string RunStats::Summary() const {
  const std::string memory = FormatByteSize(ReadProcessMeters().peak_resident_bytes);
  if (!PromptIsDone()) {
    return fmt::format("{} of {} prompt tokens in {:.3g} s, then {}; at most {} in memory",
                       prompt_done_, prompt_tokens_, prompt_.seconds, stop_reason_, memory);
  }
  std::string decode;
  if (decode_.tokens != 0) {
    decode = fmt::format(", then {:.3g} s and {} read a token",
                         decode_.seconds / static_cast<double>(decode_.tokens),
                         FormatByteSize(decode_.engine.bytes_read() / decode_.tokens));
    if (engine_.tentative_rows() > 0) {
      decode +=
          fmt::format(" ({:.3g} tokens a pass)", static_cast<double>(decode_.tokens) /
                                                     static_cast<double>(decode_.engine.passes));
    }
  }
  const std::string reused =
      reused_tokens_ == 0 ? "" : fmt::format(" after {} known", reused_tokens_);
  const std::string saved =
      keeper_ == nullptr || keeper_->saves() == 0
          ? ""
          : fmt::format("; session of {} saved {} in {:.3g} s",
                        FormatByteSize(keeper_->file_bytes()),
                        keeper_->saves() == 1 ? "once" : fmt::format("{} times", keeper_->saves()),
                        keeper_->seconds());
  return fmt::format("prompt of {}{} in {:.3g} s{}; {} generated ({}){}; at most {} in memory",
                     prompt_tokens_, reused, prompt_.seconds, decode, generated_, stop_reason_,
                     saved, memory);
}

void RunStats::Write(const std::filesystem::path& path) const {
  const auto phase = [](const Phase& p) {
    nlohmann::ordered_json object = {{"seconds", p.seconds},
                                     {"tokens", p.tokens},
                                     {"tokens_per_second", PerSecond(p.tokens, p.seconds)}};
    object.update(CountersToJson(p.engine));
    object.update(ProcessToJson(p.process));
    return object;
  };
  nlohmann::ordered_json document = EngineToJson(engine_);
  document.update({{"prompt_tokens", prompt_tokens_},
                   {"generated_tokens", generated_},
                   {"reused_tokens", reused_tokens_},
                   {"resumed_tokens", resumed_tokens_},
                   {"stop_reason", stop_reason_},
                   {"prompt", phase(prompt_)},
                   {"decode", phase(decode_)}});
  if (keeper_ != nullptr) {
    document["session"] = {{"saves", keeper_->saves()},
                           {"seconds", keeper_->seconds()},
                           {"file_bytes", keeper_->file_bytes()}};
  }
  if (const std::string part = engine_.part(); !part.empty()) document["part"] = part;
  if (const std::string flags = engine_.approximations(); !flags.empty()) {
    document["approximations"] = flags;
  }
  if (!error_.empty()) document["error"] = error_;
  AtomicFile file(path);
  file.Append(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.Commit();
}

}  // namespace kimi_k3
